// The steps of raw sequences that a model reads at once, as numbers for it.
#ifndef HEED_SERIES_WINDOWS_H_
#define HEED_SERIES_WINDOWS_H_

#include <cstdint>

#include "heed/series_model.h"

namespace heed {

// Steps first .. first + steps - 1 of a row. `read`: how many of them an earlier window has answered.
struct SeriesWindow {
  int64_t row, first, steps, read;
};

// Windows end to end, each padded to the steps of the longest.
struct SeriesBatch {
  int64_t rows = 0, steps = 0;
  View<float, 3> features;      // [rows, steps, form.width()]; 0 behind a window's steps
  const int64_t* lengths = {};  // [rows]
  bool padded = false;          // whether any is less than steps
  View<const double, 2> times;  // [rows, steps] in typical steps from the first; absent without times
};

// Throws InvalidArgument for other shapes than SeriesInput has.
void CheckShapes(const SeriesForm& form, const SeriesInput& input);
// As CheckShapes, and, naming the argument, row, step and column, for a number that a model of the form cannot compute with.
void CheckInput(const SeriesForm& form, const SeriesInput& input);

int64_t LengthOf(const SeriesInput& input, int64_t row);
// The target at a row's steps, of a forecast. NaN where it is missing, for which the last one before it stands.
class RowTarget {
 public:
  RowTarget(const SeriesForm& form, const SeriesInput& input, int64_t row);
  double operator()(int64_t step) const {
    return column_ < 0 ? input_.target(row_, step) : input_.features(row_, step, column_);
  }
  double Last() const;

 private:
  const SeriesInput& input_;
  int64_t row_, column_;  // of the features, or -1
};

// How many windows the steps of a sequence are read in, and one of them.
int64_t WindowCount(const SeriesForm& form, int64_t length);
SeriesWindow WindowAt(const SeriesForm& form, int64_t row, int64_t length, int64_t window);

// What it holds lives as long as the workspace's current frame.
SeriesBatch MakeBatch(const SeriesForm& form, const SeriesInput& input, const SeriesWindow* windows, int64_t count,
                      ModelWorkspace& workspace);

}  // namespace heed

#endif  // HEED_SERIES_WINDOWS_H_
