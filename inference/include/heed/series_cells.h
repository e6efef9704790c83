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
  kBoth,     // the features, then their summaries
};

// Turns windows into rows of cells. The steps of a row are the features of
//   a sequence that has one target   all its steps,
//   a step that has its own          the eight steps before it, itself and the eight behind it, as models look both ways,
//   a forecast                       the window, each column less its last value, in units of its typical change.
// Missing steps are 0, and one more cell a step gives the share of it that exists. Steps and summaries have at most 1024 cells
// each: neighbouring steps are averaged into as many pieces as fit, and of more columns than that an evenly spread choice is
// used.
class SeriesCells {
 public:
  // The fields of heed/series_form.h that it needs.
  struct Shape {
    bool forecasts = false, each_step = false;
    int64_t width = 0, features = 0, steps = 0;
  };

  // Summaries are for sequences with one target each. lengths_differ: whether sequences may have fewer steps than shape.steps.
  SeriesCells(const Shape& shape, RowOf row_of, bool lengths_differ);

  int64_t cells() const { return steps_.cells() + summaries_.cells(); }
  int64_t span() const { return span_; }  // steps of a row
  // Averages of these steps; as many as steps where a row has summaries alone.
  int64_t pieces() const { return steps_.pieces > 0 ? steps_.pieces : span_; }
  int64_t columns() const;  // whose steps, or else summaries, are cells

  // features: [length, width], a window as a model reads it. step: the step that the row answers if each step has an answer,
  // else 0. cells: [cells()], overwritten.
  void Fill(const float* features, int64_t length, int64_t step, double* cells) const;

 private:
  // So many times the same cells of these columns.
  struct Part {
    int64_t pieces = 0, each = 0;  // cells of a piece
    std::vector<int64_t> columns;

    int64_t cells() const { return pieces * each; }
  };
  Part PartOf(int64_t span, int64_t cells_of_column) const;
  void FillSteps(const float* features, int64_t length, int64_t begin, double* cells) const;
  void Summarise(const float* features, int64_t length, double* cells) const;

  Shape shape_;
  bool masked_;
  int64_t span_;
  Part steps_, summaries_;  // without pieces where the row has none
};

}  // namespace heed

#endif  // HEED_SERIES_CELLS_H_
