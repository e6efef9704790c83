// Linear regression with a penalty, for numbers and for classes.
#ifndef HEED_LAB_SERIES_LINEAR_H_
#define HEED_LAB_SERIES_LINEAR_H_

#include <map>
#include <string>

#include "lab/series/examples.h"

namespace heed::lab {

// Both see each cell standardised by the training examples, do not penalise the constant, and choose the strength of the
// penalty by the loss on the validation examples. They are computed in double precision, in a fixed order.

// Least (mean squared error + strength |W|^2), solved by Cholesky's decomposition. y is [rows, outputs].
FittedMethod FitRidge(const Examples& training, const Examples& validation);

// Least (mean cross entropy + strength / 2 |W|^2) of the softmax of W x + b, by at most 100 steps of L-BFGS for each strength.
// y is [rows], of `classes`. Throws Interruption on Ctrl-C.
FittedMethod FitLogistic(const Examples& training, const Examples& validation, int64_t classes);

// What either answers from: "mean" and "factor" of the cells, "W" [cells, outputs], "b" [outputs].
Method LinearAnswers(const std::map<std::string, at::Tensor>& arrays, bool classes);

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_LINEAR_H_
