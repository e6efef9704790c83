// The dense bias in double precision.
#ifndef HEED_POSITION_DENSE_BIAS_REFERENCE_H_
#define HEED_POSITION_DENSE_BIAS_REFERENCE_H_

#include <limits>
#include <vector>

#include "reference/dense.h"
#include "reference/scheme.h"

namespace heed::reference {

struct DenseBiasCase {
  int bias = kNoDense;
  bool hiding_bias = false;  // some entries are -inf
  bool narrow_bias = false;  // 16 bits an entry
  bool operator==(const DenseBiasCase&) const = default;
};

struct DenseBiasReference : SchemeReference {
  static bool Hides(const Formulas& f, const Pair& pair);
  static void AddToScore(const Formulas& f, const Pair& pair, Number& score);

  template <class Gradients, class Visit>
  static void ForEachTable(const Attention& attention, Gradients& gradients, const Visit& visit) {
    if (attention.bias) visit("dBias", attention.bias->values, gradients.bias);
  }
  template <class A>
  static void Fill(const DenseBiasCase& c, const Shape& shape, RandomTables<A>& tables, Attention& attention) {
    if (c.bias == kNoDense) return;
    const auto hide = [&](A& entry) {
      if (c.hiding_bias && tables.random()() % 5 == 0) entry = -std::numeric_limits<A>::infinity();
    };
    const auto bias = tables.Make(DenseExtent(shape, c.bias), hide);
    attention.bias = Bias{bias};
    if (c.narrow_bias) attention.bias = Bias{tables.Narrowed(bias)};
  }
  static void LimitArrays(DenseBiasCase& c) {
    if (c.bias != kNoDense) c.bias = kDenseOfKeys;
  }
  static bool Draw(Case& c, Random& random);
  static void AddCases(CaseTable& table);
  static void AddOptions(std::vector<Option>& options);
  static void AddCosts(std::vector<Cost>& costs);
};

}  // namespace heed::reference

#endif  // HEED_POSITION_DENSE_BIAS_REFERENCE_H_
