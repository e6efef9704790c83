// Normal random numbers whose bits depend on the generator alone, not on the C++ library or the C library.
#ifndef HEED_REFERENCE_NORMAL_H_
#define HEED_REFERENCE_NORMAL_H_

#include <cmath>
#include <random>

#include "heed/portable_math.h"

namespace heed::reference {

// N(0, 1) by the polar method (Marsaglia and Bray 1964, "A convenient method for generating normal variables").
class Normal {
 public:
  double operator()(std::mt19937_64& random) {
    if (kept_) {
      kept_ = false;
      return next_;
    }
    double x = 0, y = 0, square = 0;
    do {
      x = 2 * Uniform(random) - 1, y = 2 * Uniform(random) - 1;
      square = x * x + y * y;
    } while (square > 1 || square == 0);
    const double factor = std::sqrt(-2 * portable::Log(square) / square);
    kept_ = true, next_ = x * factor;
    return y * factor;
  }

 private:
  // In [0, 1).
  static double Uniform(std::mt19937_64& random) {
    const double number = static_cast<double>(random()) * 0x1p-64;
    return number < 1 ? number : 1 - 0x1p-53;
  }

  bool kept_ = false;
  double next_ = 0;
};

}  // namespace heed::reference

#endif  // HEED_REFERENCE_NORMAL_H_
