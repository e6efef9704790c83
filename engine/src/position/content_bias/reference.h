// The content bias in double precision.
#ifndef HEED_POSITION_CONTENT_BIAS_REFERENCE_H_
#define HEED_POSITION_CONTENT_BIAS_REFERENCE_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "reference/scheme.h"

namespace heed::reference {

struct ContentBiasCase {
  int64_t content_distance = -1;  // -1: none
  bool content_keys = true, content_values = true, content_queries = false, content_head_queries = false;
  bool operator==(const ContentBiasCase&) const = default;
};

struct ContentBiasReference : SchemeReference {
  static void AddToProduct(const Formulas& f, const Pair& pair, Number& product);
  static void AddToValue(const Formulas& f, const Pair& pair, std::span<Number> value);

  template <class Gradients, class Visit>
  static void ForEachTable(const Attention& attention, Gradients& gradients, const Visit& visit) {
    if (!attention.content_bias) return;
    const auto& [keys, values, queries, head_queries] = *attention.content_bias;
    if (keys) visit("dContentKeys", *keys, gradients.content_keys);
    if (values) visit("dContentValues", *values, gradients.content_values);
    if (queries) visit("dContentQueries", *queries, gradients.content_queries);
    if (head_queries) visit("dContentHeadQueries", *head_queries, gradients.content_head_queries);
  }
  template <class A>
  static void Fill(const ContentBiasCase& c, const Shape& shape, RandomTables<A>& tables, Attention& attention) {
    if (c.content_distance < 0) return;
    const int64_t rows = 2 * c.content_distance + 1;
    auto& [keys, values, queries, head_queries] = attention.content_bias.emplace();
    if (c.content_keys) keys = tables.Make(std::array{rows, shape.head_dim});
    if (c.content_values) values = tables.Make(std::array{rows, shape.value_dim});
    if (c.content_queries) queries = tables.Make(std::array{rows, shape.head_dim});
    if (c.content_head_queries) head_queries = tables.Make(std::array{shape.q_heads, rows, shape.head_dim});
  }
  static void LimitArrays(ContentBiasCase& c) {
    if (c.content_distance >= 0) c.content_distance = 200;
  }
  static bool Draw(Case& c, Random& random);
  static void AddCases(CaseTable& table);
  static void AddOptions(std::vector<Option>& options);
  static void AddCosts(std::vector<Cost>& costs);
};

}  // namespace heed::reference

#endif  // HEED_POSITION_CONTENT_BIAS_REFERENCE_H_
