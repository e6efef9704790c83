// A training on its way.
#ifndef HEED_LAB_TRAINING_CURVE_H_
#define HEED_LAB_TRAINING_CURVE_H_

#include <cstdint>

namespace heed::lab {

struct CurvePoint {
  int64_t steps;      // that were done
  double training;    // the mean loss over the steps since the point before
  double validation;  // the loss on the validation part, of the weights to use (AdamW::UseMeans)
};

// The first point behind so many steps of a training that is measured after whole * 2^(k/2) steps for every whole k, but not
// before a sixty-fourth of `whole` and 8 steps, unless `whole` is less.
int64_t PointAfter(int64_t steps, int64_t whole);

}  // namespace heed::lab

#endif  // HEED_LAB_TRAINING_CURVE_H_
