// Windows as rows of a table, for methods that know no sequences.
#ifndef HEED_LAB_SERIES_EXAMPLES_H_
#define HEED_LAB_SERIES_EXAMPLES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lab/series/batches.h"
#include "lab/series/kept_method.h"

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
};

// The mean loss of answers: nats, or squared error of the values as they are.
double MeanLoss(const at::Tensor& answers, const at::Tensor& y);

enum class RowOf {
  kSteps,    // the features themselves
  kSummary,  // of each column mean, deviation, least, greatest, mean absolute change and slope; the number of steps where they
             // differ
};

// How a batch becomes rows of cells. Of kSteps, a row's cells are the features of
//   a sequence that has one target   all its steps,
//   a step that has its own          the eight steps before it, itself and the eight behind it, as models look both ways,
//   a forecast                       the window, each column less its last value, in units of its typical change.
// Steps that are not there are 0, and a cell a step tells how much of it is there. A row has at most 1024 cells: neighbouring
// steps are averaged into so many pieces as fit, and of more columns than that as many are taken, evenly spread.
class SeriesRows {
 public:
  // Summaries are those of sequences with one target each. lengths_differ: whether sequences may have fewer steps than the form
  // reads.
  SeriesRows(const SeriesForm& form, RowOf row_of, bool lengths_differ);

  int64_t cells() const { return pieces_ * cells_of_piece(); }
  // The answers of these indices among those that the batch scores; y is empty where the batch has no targets.
  Examples Of(const SeriesBatch& batch, const std::vector<int64_t>& chosen) const;
  // What of the cells was left out; empty: nothing.
  std::vector<std::string> Limits() const;

 private:
  int64_t cells_of_piece() const;
  void FillRow(const SeriesBatch& batch, int64_t row, int64_t begin, double* cells) const;
  void Summarise(const SeriesBatch& batch, int64_t row, double* cells) const;

  RowOf row_of_;
  bool forecasts_, pooled_, masked_;
  int64_t width_, features_, outputs_;
  int64_t span_;                  // steps that a row looks at
  int64_t pieces_;                // of them
  std::vector<int64_t> columns_;  // of a batch's features
};

// The rows of each part.
class SeriesExamples {
 public:
  explicit SeriesExamples(const SeriesBatches& batches, RowOf row_of = RowOf::kSteps);

  const SeriesRows& rows() const { return rows_; }
  int64_t cells() const { return rows_.cells(); }
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
  int64_t RowsOf(const std::vector<SeriesWindow>& windows) const;
  Examples Thinned(const std::vector<SeriesWindow>& windows, int64_t most) const;

  const SeriesBatches& batches_;
  SeriesRows rows_;
};

// Whether sequences have fewer steps than are read.
bool LengthsDiffer(const SeriesBatches& batches);
// Calls visit for all that a batch scores, some rows at a time. Throws Interruption on Ctrl-C.
void ForEachRow(const SeriesRows& rows, const SeriesBatch& batch, const std::function<void(const Examples&)>& visit);

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_EXAMPLES_H_
