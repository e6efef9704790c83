// The terms of Transformer-XL in double precision.
#ifndef HEED_POSITION_TRANSFORMER_XL_REFERENCE_H_
#define HEED_POSITION_TRANSFORMER_XL_REFERENCE_H_

#include <array>
#include <cstdint>
#include <vector>

#include "reference/scheme.h"

namespace heed::reference {

struct TransformerXlCase {
  int64_t xl_distance = -1;  // -1: none
  bool xl_bias = true;
  bool operator==(const TransformerXlCase&) const = default;
};

struct TransformerXlReference : SchemeReference {
  static void AddToProduct(const Formulas& f, const Pair& pair, Number& product);

  template <class Gradients, class Visit>
  static void ForEachTable(const Attention& attention, Gradients& gradients, const Visit& visit) {
    if (!attention.transformer_xl) return;
    visit("dTransformerXlPositions", attention.transformer_xl->positions, gradients.transformer_xl_positions);
    if (attention.transformer_xl->bias)
      visit("dTransformerXlBias", *attention.transformer_xl->bias, gradients.transformer_xl_bias);
  }
  template <class A>
  static void Fill(const TransformerXlCase& c, const Shape& shape, RandomTables<A>& tables, Attention& attention) {
    if (c.xl_distance < 0) return;
    attention.transformer_xl = {tables.Make(std::array{shape.q_heads, 2 * c.xl_distance + 1, shape.head_dim}), std::nullopt};
    if (c.xl_bias) attention.transformer_xl->bias = tables.Make(std::array{shape.q_heads, shape.head_dim});
  }
  static void LimitArrays(TransformerXlCase& c) {
    if (c.xl_distance >= 0) c.xl_distance = 200;
  }
  static bool Draw(Case& c, Random& random);
  static void AddCases(CaseTable& table);
  static void AddOptions(std::vector<Option>& options);
  static void AddCosts(std::vector<Cost>& costs);
};

}  // namespace heed::reference

#endif  // HEED_POSITION_TRANSFORMER_XL_REFERENCE_H_
