// Windows of sequences as rows of a table, for methods that know no sequences.
#ifndef HEED_SERIES_CELLS_H_
#define HEED_SERIES_CELLS_H_

#include <cstdint>
#include <vector>

namespace heed {

enum class RowOf {
  kSteps,    // the features themselves
  kSummary,  // of each column mean, deviation, least, greatest, mean absolute change and slope; the number of steps where they
             // differ
};

// How windows become rows of cells. Of kSteps, a row's cells are the features of
//   a sequence that has one target   all its steps,
//   a step that has its own          the eight steps before it, itself and the eight behind it, as models look both ways,
//   a forecast                       the window, each column less its last value, in units of its typical change.
// Steps that are not there are 0, and a cell a step tells how much of it is there. A row has at most 1024 cells: neighbouring
// steps are averaged into so many pieces as fit, and of more columns than that as many are taken, evenly spread.
class SeriesCells {
 public:
  // What of a form it needs: see heed/series_form.h.
  struct Shape {
    bool forecasts = false, each_step = false;
    int64_t width = 0, features = 0, steps = 0;
  };

  // Summaries are those of sequences with one target each. lengths_differ: whether sequences may have fewer steps than are
  // read.
  SeriesCells(const Shape& shape, RowOf row_of, bool lengths_differ);

  int64_t cells() const { return pieces_ * CellsOfPiece(); }
  int64_t span() const { return span_; }      // steps that a row looks at
  int64_t pieces() const { return pieces_; }  // that they are averaged to
  int64_t columns() const { return static_cast<int64_t>(columns_.size()); }

  // features: [length, width], what a model reads of a window. step: whose answer the row is for, where each step has one; else
  // 0. cells: [cells()], overwritten.
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
