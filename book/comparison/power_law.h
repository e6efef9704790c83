// Power laws fitted to costs: least squares on logarithms.
#ifndef HEED_BOOK_COMPARISON_POWER_LAW_H_
#define HEED_BOOK_COMPARISON_POWER_LAW_H_

#include <vector>

namespace heed::lab {

struct Exponent {
  double value;
  double standard_error;  // 0 with no more points than unknowns
};

// y is about c x_1^e_1 x_2^e_2 ...; one exponent per factor. x[f] and y hold one number per point, all positive. The factors
// must be uncorrelated in their logarithms, as over a complete grid (or be one alone), and each take two values at least.
std::vector<Exponent> FitPowerLaw(const std::vector<std::vector<double>>& x, const std::vector<double>& y);

}  // namespace heed::lab

#endif  // HEED_BOOK_COMPARISON_POWER_LAW_H_
