// The fading columns in double precision.
#ifndef HEED_POSITION_COLUMN_DECAY_REFERENCE_H_
#define HEED_POSITION_COLUMN_DECAY_REFERENCE_H_

#include <array>
#include <cmath>
#include <vector>

#include "reference/scheme.h"

namespace heed::reference {

struct ColumnDecayCase {
  double decay = 0;  // about how large rates are; 0: none
  bool operator==(const ColumnDecayCase&) const = default;
};

struct ColumnDecayReference : SchemeReference {
  static double Factor(const Formulas& f, const Pair& pair, int64_t c);

  template <class Gradients, class Visit>
  static void ForEachTable(const Attention&, Gradients&, const Visit&) {}
  template <class A>
  static void Fill(const ColumnDecayCase& c, const Shape& shape, RandomTables<A>& tables, Attention& attention) {
    if (c.decay == 0) return;
    const auto make_rate = [&](A& rate) { rate = static_cast<A>(c.decay) * std::abs(rate); };
    attention.column_decay = ColumnDecay{tables.Make(std::array{shape.head_dim}, make_rate)};
  }
  static bool Draw(Case& c, Random& random);
  static void AddCases(CaseTable& table);
  static void AddOptions(std::vector<Option>& options);
  static void AddCosts(std::vector<Cost>& costs);
};

}  // namespace heed::reference

#endif  // HEED_POSITION_COLUMN_DECAY_REFERENCE_H_
