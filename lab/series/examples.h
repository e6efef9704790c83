// Turns windows into rows of a table, for methods without sequences.
#ifndef HEED_LAB_SERIES_EXAMPLES_H_
#define HEED_LAB_SERIES_EXAMPLES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "heed/series_cells.h"
#include "lab/runs/measurements.h"
#include "lab/series/batches.h"

namespace heed::lab {

// A row an answer.
struct Examples {
  at::Tensor X;  // float64 [rows, cells]
  at::Tensor y;  // int64 [rows], classes; or float64 [rows, outputs], as SeriesBatch has them

  int64_t rows() const { return X.size(0); }
  int64_t cells() const { return X.size(1); }
  bool classes() const { return y.dim() == 1; }
};

// [rows, classes] logarithms of probabilities, or [rows, outputs].
using Method = std::function<at::Tensor(const at::Tensor& X)>;
struct FittedMethod {
  std::string setting;  // "strength 0.01"
  Method answer;
  KeptMethod kept;
  // The same setting, fitted to other examples.
  std::function<FittedMethod(const Examples& examples)> again;
};

// The mean loss of answers: nats, or squared error of the values as they are.
double MeanLoss(const at::Tensor& answers, const at::Tensor& y);

// How a batch becomes rows of cells.
class SeriesRows {
 public:
  SeriesRows(const SeriesForm& form, RowOf row_of, bool lengths_differ);

  int64_t cells() const { return cells_.cells(); }
  // The answers of these indices among those that the batch scores; y is empty where the batch has no targets.
  Examples Of(const SeriesBatch& batch, const std::vector<int64_t>& chosen) const;
  // What of the cells was left out; empty: nothing.
  std::vector<std::string> Limits() const;

 private:
  SeriesCells cells_;
  bool pooled_;
  int64_t width_, outputs_;
};

// The rows of each part.
class SeriesExamples {
 public:
  SeriesExamples(const SeriesBatches& batches, RowOf row_of);

  const SeriesRows& rows() const { return rows_; }
  int64_t cells() const { return rows_.cells(); }
  int64_t outputs() const { return batches_.form().outputs(); }
  // At most so many rows, evenly spread.
  Examples Training(int64_t most) const;
  Examples Validation(int64_t most) const;
  // Of the validation and the test part.
  int64_t MeasuredRows() const {
    return batches_.form().Answers(batches_.validation_windows()) + batches_.form().Answers(batches_.test_windows());
  }
  // All of these windows, some rows at a time.
  void ForEach(const std::vector<SeriesWindow>& windows, const std::function<void(const Examples&)>& visit) const;
  // What of the training part was left out by Training(most), and of the cells; empty: nothing.
  std::string Limits(int64_t most) const;

 private:
  Examples Thinned(const std::vector<SeriesWindow>& windows, int64_t most) const;

  const SeriesBatches& batches_;
  SeriesRows rows_;
};

// Whether sequences have fewer steps than are read.
bool LengthsDiffer(const SeriesBatches& batches);
// Calls visit for all that a batch scores, some rows at a time. Throws Interruption on Ctrl-C.
void ForEachRow(const SeriesRows& rows, const SeriesBatch& batch, const std::function<void(const Examples&)>& visit);

// Linear regression that sees each cell standardised by the training examples and does not penalise the constant. Of values
// (classes: 0) the least (mean squared error + strength |W|^2), by Cholesky's decomposition; of classes the least (mean cross
// entropy + strength / 2 |W|^2) of the softmax of W x + b, by at most 100 steps of L-BFGS for each strength. The loss on the
// validation examples chooses the strength. Computed in double precision, in a fixed order. Throws Interruption on Ctrl-C.
FittedMethod FitLinear(const Examples& training, const Examples& validation, int64_t classes);

// The mean of the values of the k nearest training examples by the distance of their cells; or the logarithm of the share of
// each class among them, to which its share of all training examples is added with a small weight, so that none is impossible.
// k is 1, 2, 4, .. up to 128 and the weight, in neighbours, 1, 0.3, 0.1 or 0.03, by the loss on the validation examples.
// classes: 0 where y holds values. Throws Interruption on Ctrl-C.
FittedMethod FitNeighbours(const Examples& training, const Examples& validation, int64_t classes);

// What a kept method of either kind answers, from "mean" and "factor" of the cells, "W" [cells, outputs] and "b" [outputs]; or
// from "X" [examples, cells], "y" as Examples has it, k as "neighbours" and that weight as "prior".
Method RowMethod(const KeptMethod& kept, int64_t classes);

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_EXAMPLES_H_
