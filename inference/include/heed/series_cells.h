// Turns windows of sequences into rows of a table, for methods without sequences.
#ifndef HEED_SERIES_CELLS_H_
#define HEED_SERIES_CELLS_H_

#include <cstdint>
#include <vector>

namespace heed {

enum class RowOf {
  kSteps,    // the features themselves
  kSummary,  // mean, deviation, least, greatest, mean absolute change and slope of each column; the number of steps if rows
             // differ in it
};

// Turns windows into rows of cells. With kSteps, a row's cells are the features of
//   a sequence that has one target   all its steps,
//   a step that has its own          the eight steps before it, itself and the eight behind it, as models look both ways,
//   a forecast                       the window, each column less its last value, in units of its typical change.
// Missing steps are 0, and one more cell a step gives the share of it that exists. A row has at most 1024 cells: neighbouring
// steps are averaged into as many pieces as fit, and of more columns than that an evenly spread choice is used.
class SeriesCells {
 public:
  // The fields of heed/series_form.h that it needs.
  struct Shape {
    bool forecasts = false, each_step = false;
    int64_t width = 0, features = 0, steps = 0;
  };

  // Summaries are for sequences with one target each. lengths_differ: whether sequences may have fewer steps than shape.steps.
  SeriesCells(const Shape& shape, RowOf row_of, bool lengths_differ);

  int64_t cells() const { return pieces_ * CellsOfPiece(); }
  int64_t span() const { return span_; }      // steps of a row
  int64_t pieces() const { return pieces_; }  // averages of these steps
  int64_t columns() const { return static_cast<int64_t>(columns_.size()); }

  // features: [length, width], a window as a model reads it. step: the step that the row answers if each step has an answer,
  // else 0. cells: [cells()], overwritten.
  void Fill(const float* features, int64_t length, int64_t step, double* cells) const;

 private:
  int64_t CellsOfPiece() const;
  void FillSteps(const float* features, int64_t length, int64_t begin, double* cells) const;
  void Summarise(const float* features, int64_t length, double* cells) const;

  Shape shape_;
  RowOf row_of_;
  bool masked_;
  int64_t span_, pieces_;
  std::vector<int64_t> columns_;  // of the features
};

}  // namespace heed

#endif  // HEED_SERIES_CELLS_H_
