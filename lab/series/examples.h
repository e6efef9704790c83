// Windows as rows of a table, for methods that know no sequences.
#ifndef HEED_LAB_SERIES_EXAMPLES_H_
#define HEED_LAB_SERIES_EXAMPLES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

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
};

// The mean loss of answers: nats, or squared error of the values as they are.
double MeanLoss(const at::Tensor& answers, const at::Tensor& y);

enum class RowOf {
  kSteps,    // the features themselves
  kSummary,  // of each column mean, deviation, least, greatest, mean absolute change and slope; the number of steps where they
             // differ
};

// Of kSteps, a row's cells are the features of
//   a sequence that has one target   all its steps,
//   a step that has its own          the eight steps before it, itself and the eight behind it, as models look both ways,
//   a forecast                       the window, each column less its last value, in units of its typical change.
// Steps that are not there are 0, and a cell a step tells how much of it is there. A row has at most 1024 cells: neighbouring
// steps are averaged into so many pieces as fit, and of more columns than that as many are taken, evenly spread.
class SeriesExamples {
 public:
  // Summaries are those of sequences with one target each.
  explicit SeriesExamples(const SeriesBatches& batches, RowOf row_of = RowOf::kSteps);

  int64_t cells() const { return pieces_ * cells_of_piece(); }
  int64_t outputs() const { return batches_.outputs(); }
  // At most so many rows, evenly spread.
  Examples Training(int64_t most) const;
  Examples Validation(int64_t most) const;
  int64_t TestRows() const { return RowsOf(batches_.test_windows()); }
  // All of these windows, some rows at a time.
  void ForEach(const std::vector<SeriesWindow>& windows, const std::function<void(const Examples&)>& visit) const;
  // What of the training part was left out by Training(most), and of the cells; empty: nothing.
  std::string Limits(int64_t most) const;

 private:
  int64_t cells_of_piece() const;
  int64_t RowsOf(const std::vector<SeriesWindow>& windows) const;
  Examples Thinned(const std::vector<SeriesWindow>& windows, int64_t most) const;
  // The answers of these indices among those that the batch scores.
  Examples Flat(const SeriesBatch& batch, const std::vector<int64_t>& chosen) const;
  void FillRow(const SeriesBatch& batch, int64_t row, int64_t begin, double* cells) const;

  void Summarise(const SeriesBatch& batch, int64_t row, double* cells) const;

  const SeriesBatches& batches_;
  RowOf row_of_;
  bool forecasts_, masked_;
  int64_t span_;                  // steps that a row looks at
  int64_t pieces_;                // of them
  std::vector<int64_t> columns_;  // of a batch's features
};

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_EXAMPLES_H_
