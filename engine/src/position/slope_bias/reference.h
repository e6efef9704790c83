// The slopes in double precision.
#ifndef HEED_POSITION_SLOPE_BIAS_REFERENCE_H_
#define HEED_POSITION_SLOPE_BIAS_REFERENCE_H_

#include <array>
#include <cmath>
#include <vector>

#include "reference/scheme.h"

namespace heed::reference {

struct SlopeBiasCase {
  bool slopes = false, symmetric = true;
  bool operator==(const SlopeBiasCase&) const = default;
};

struct SlopeBiasReference : SchemeReference {
  static void AddToScore(const Formulas& f, const Pair& pair, Number& score);

  template <class Gradients, class Visit>
  static void ForEachTable(const Attention& attention, Gradients& gradients, const Visit& visit) {
    if (attention.slope_bias) visit("dSlopes", attention.slope_bias->slopes, gradients.slopes);
  }
  template <class A>
  static void Fill(const SlopeBiasCase& c, const Shape& shape, RandomTables<A>& tables, Attention& attention) {
    if (!c.slopes) return;
    const auto make_small = [](A& slope) { slope = std::abs(slope) * static_cast<A>(0.1); };
    attention.slope_bias = SlopeBias{tables.Make(std::array{shape.q_heads}, make_small), c.symmetric};
  }
  static bool Draw(Case& c, Random& random);
  static void AddCases(CaseTable& table);
  static void AddOptions(std::vector<Option>& options);
  static void AddCosts(std::vector<Cost>& costs);
};

}  // namespace heed::reference

#endif  // HEED_POSITION_SLOPE_BIAS_REFERENCE_H_
