// How each term of a layer's cost grows with length, width and reach: fitted to counts of running layers over a grid.
#ifndef HEED_BOOK_COMPARISON_EXPONENTS_H_
#define HEED_BOOK_COMPARISON_EXPONENTS_H_

#include <string>
#include <vector>

#include "book/comparison/layer.h"
#include "book/comparison/power_law.h"

namespace heed::lab {

// By how much a fitted exponent may differ from theory: terms of lower order (taps beyond the ends, the diagonal of a causal
// mask) still show on a grid of such lengths.
inline constexpr double kExponentTolerance = 0.05;

struct FittedExponent {
  std::string of;  // "n", "d", "k", "2w + 1", "k - 1", "w"
  Exponent fitted;
  double theory;
};

struct TermExponents {
  std::string layer, quantity;  // "self-attention", "score products" or "hops"
  bool over_log_n;              // the quantity was divided by log2 n before the fit
  std::vector<FittedExponent> exponents;

  double LargestDeviation() const;
};

// One entry for each term of the layer, and one for the hops where they are a power. Counts over n = 512, 1024, 2048,
// d = 1, 2, 4 and a kernel (or 2w + 1) of 3, 5, 9; hops over n = 65, 129, 257. Takes about a second for self-attention.
std::vector<TermExponents> FitExponents(const Layer& layer);

}  // namespace heed::lab

#endif  // HEED_BOOK_COMPARISON_EXPONENTS_H_
