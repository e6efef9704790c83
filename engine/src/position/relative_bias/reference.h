// The relative bias in double precision.
#ifndef HEED_POSITION_RELATIVE_BIAS_REFERENCE_H_
#define HEED_POSITION_RELATIVE_BIAS_REFERENCE_H_

#include <array>
#include <cstdint>
#include <vector>

#include "reference/scheme.h"

namespace heed::reference {

struct RelativeBiasCase {
  int64_t max_distance = -1;  // -1: none
  bool operator==(const RelativeBiasCase&) const = default;
};

struct RelativeBiasReference : SchemeReference {
  static void AddToScore(const Formulas& f, const Pair& pair, Number& score);

  template <class Gradients, class Visit>
  static void ForEachTable(const Attention& attention, Gradients& gradients, const Visit& visit) {
    if (attention.relative_bias) visit("dRelativeBias", attention.relative_bias->table, gradients.relative_bias);
  }
  template <class A>
  static void Fill(const RelativeBiasCase& c, const Shape& shape, RandomTables<A>& tables, Attention& attention) {
    if (c.max_distance < 0) return;
    attention.relative_bias = RelativeBias{tables.Make(std::array{shape.q_heads, 2 * c.max_distance + 1})};
  }
  static void LimitArrays(RelativeBiasCase& c) {
    if (c.max_distance >= 0) c.max_distance = 300;
  }
  static bool Draw(Case& c, Random& random);
  static void AddCases(CaseTable& table);
  static void AddOptions(std::vector<Option>& options);
  static void AddCosts(std::vector<Cost>& costs);
};

}  // namespace heed::reference

#endif  // HEED_POSITION_RELATIVE_BIAS_REFERENCE_H_
