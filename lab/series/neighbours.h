// Predicts from the nearest training examples.
#ifndef HEED_LAB_SERIES_NEIGHBOURS_H_
#define HEED_LAB_SERIES_NEIGHBOURS_H_

#include <cstdint>
#include <map>
#include <string>

#include "lab/series/examples.h"

namespace heed::lab {

// The mean of the values of the k nearest training examples by the distance of their cells; or the logarithm of the share of
// each class among them, to which its share of all training examples is added with a small weight, so that none is impossible.
// k is 1, 2, 4, .. up to 128 and the weight, in neighbours, 1, 0.3, 0.1 or 0.03, by the loss on the validation examples.
// classes: 0 where y holds values. Throws Interruption on Ctrl-C.
FittedMethod FitNeighbours(const Examples& training, const Examples& validation, int64_t classes);

// What it answers from: "X" [examples, cells], "y" as Examples has it; k; and that weight.
Method NeighbourAnswers(const std::map<std::string, at::Tensor>& arrays, int64_t neighbours, double prior, int64_t classes);

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_NEIGHBOURS_H_
