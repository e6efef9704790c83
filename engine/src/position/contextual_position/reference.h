// Positions that count what a query looks for, in double precision.
#ifndef HEED_POSITION_CONTEXTUAL_POSITION_REFERENCE_H_
#define HEED_POSITION_CONTEXTUAL_POSITION_REFERENCE_H_

#include <array>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "reference/scheme.h"

namespace heed::reference {

struct ContextualPositionCase {
  int64_t contextual = 0;  // rows of the table; 0: none
  bool operator==(const ContextualPositionCase&) const = default;
};

struct ContextualPositionReference : SchemeReference {
  static void MakeRow(const Formulas& f, const SeenKeys& seen, std::span<Number> scores);

  template <class Gradients, class Visit>
  static void ForEachTable(const Attention& attention, Gradients& gradients, const Visit& visit) {
    if (!attention.contextual_position) return;
    visit("dContextualPosition", attention.contextual_position->table, gradients.contextual_position);
  }
  template <class A>
  static void Fill(const ContextualPositionCase& c, const Shape& shape, RandomTables<A>& tables, Attention& attention) {
    if (c.contextual == 0) return;
    const std::array extent{c.contextual, shape.head_dim};
    // Rounding takes single numbers of float across whole positions, where the slope is another one. Their rows lie on a line.
    if constexpr (std::is_same_v<A, float>) {
      attention.contextual_position = ContextualPosition{tables.MakeBy(extent, [&](const auto& index) {
        const auto row = static_cast<double>(index[0]), column = static_cast<double>(index[1]);
        return 0.3 + 0.05 * column + row / static_cast<double>(c.contextual) * (column - 6.5) / 8;
      })};
    } else {
      attention.contextual_position = ContextualPosition{tables.Make(extent)};
    }
  }
  static void LimitArrays(ContextualPositionCase& c) {
    if (c.contextual > 0) c.contextual = 40;
  }
  static bool Draw(Case& c, Random& random);
  static void AddCases(CaseTable& table);
  static void AddOptions(std::vector<Option>& options);
  static void AddCosts(std::vector<Cost>& costs);
};

}  // namespace heed::reference

#endif  // HEED_POSITION_CONTEXTUAL_POSITION_REFERENCE_H_
