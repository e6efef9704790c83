#include "heed/series_windows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "heed/error.h"
#include "heed/shape_text.h"
#include "heed/shown_name.h"

namespace heed {
namespace {

// As the laboratory bounds what it reads (lab/series/form.cc).
constexpr double kLargest = 1e100;
constexpr double kLargestStandardised = 1e15;           // squares of a float, and sums of millions of them, are finite
constexpr double kMostStepsApart = 9007199254740992.0;  // 2^53

[[noreturn]] void RefusePlace(const std::string& argument, int64_t row, int64_t step, double value, const std::string& why) {
  throw InvalidArgument(argument + ": row " + std::to_string(row) + ", step " + std::to_string(step) + ": " +
                        NumberText(value) + " " + why);
}

void CheckValue(const std::string& argument, int64_t row, int64_t step, double value, double mean, double deviation) {
  if (!std::isfinite(value))
    RefusePlace(argument, row, step, value, "is not a finite number; fill it in, or train on data with gaps");
  if (std::abs(value) > kLargest) RefusePlace(argument, row, step, value, "is beyond 1e100, too large to compute with");
  if (std::abs((value - mean) / deviation) > kLargestStandardised)
    RefusePlace(argument, row, step, value, "lies more than 1e15 deviations from the mean of the training part");
}

// Windows are the ends of sequences, and of a forecast begin anywhere; where each step has an answer they lie end to end, which
// asks for less.
void CheckTimes(const SeriesForm& form, const View<const double, 2>& times, int64_t row, int64_t length) {
  for (int64_t i = 0; i < length; ++i) {
    const double time = times(row, i);
    if (!std::isfinite(time) || std::abs(time) > kLargest) RefusePlace("times", row, i, time, "is not a number within 1e100");
    if (i == 0) continue;
    const double since = (time - times(row, i - 1)) / form.typical_step;
    const double whole = (time - times(row, std::max<int64_t>(0, i - form.steps() + 1))) / form.typical_step;
    if (!(since > 0)) RefusePlace("times", row, i, time, "is not later than the step before");
    if (!std::isfinite(since) || whole > kMostStepsApart)
      RefusePlace("times", row, i, time, "is more than 2^53 typical steps later than the steps that are read with it");
  }
}

// The value of a feature at a step, or the last before it that is not missing; NaN where there is none.
double LastKnown(const SeriesInput& input, int64_t row, int64_t step, int64_t feature) {
  while (step > 0 && std::isnan(input.features(row, step, feature))) --step;
  return input.features(row, step, feature);
}

bool MayLackValues(const SeriesForm& form, std::size_t feature) {
  return std::ranges::find(form.marks.gaps, form.features[feature]) != form.marks.gaps.end();
}

// Indices of categories, behind the features of a step.
void CheckCategories(const SeriesForm& form, const SeriesInput& input, int64_t row, int64_t step) {
  const std::vector<std::string>& columns = form.marks.category_columns;
  const int64_t all = std::ssize(columns);
  int64_t column = std::ssize(form.features);
  for (int64_t first = 0, end = 0; first < all; first = end, ++column) {
    while (end < all && columns[end] == columns[first]) ++end;
    const double index = input.features(row, step, column);
    if (std::isnan(index) || (index == std::floor(index) && index >= 0 && index < static_cast<double>(end - first))) continue;
    RefusePlace("features: column " + QuotedName(columns[first]), row, step, index,
                "is no category; expected 0 to " + std::to_string(end - first - 1) + ", or NaN for none of them");
  }
}

// The feature that a forecast's target is, or -1.
int64_t TargetColumn(const SeriesForm& form) {
  const auto found = std::ranges::find(form.features, form.target);
  return found == form.features.end() ? -1 : found - form.features.begin();
}

}  // namespace

void CheckShapes(const SeriesForm& form, const SeriesInput& input) {
  const auto& extent = input.features.extent;
  if (extent[0] < 0 || extent[1] < 1 || extent[2] != form.columns())
    throw InvalidArgument("features: expected [rows, steps, " + std::to_string(form.columns()) +
                          "] with at least one step, got " + ShapeText(extent));
  if (input.features.size() > 0 && !input.features.present()) throw InvalidArgument("features: no memory behind it");
  const std::array<int64_t, 2> places{extent[0], extent[1]};
  if (form.has_times != input.times.present() || (form.has_times && input.times.extent != places))
    throw InvalidArgument(form.has_times ? "times: expected " + ShapeText(places) + ", got " + ShapeText(input.times.extent)
                                         : "times: expected none, as the model knows the order of steps alone");
  const std::array<int64_t, 1> rows{extent[0]};
  if (input.lengths.present() && input.lengths.extent != rows)
    throw InvalidArgument("lengths: expected " + ShapeText(rows) + ", got " + ShapeText(input.lengths.extent));
  if (input.target.present() && input.target.extent != places)
    throw InvalidArgument("target: expected " + ShapeText(places) + ", got " + ShapeText(input.target.extent));
  for (int64_t row = 0; row < extent[0]; ++row) {
    const int64_t length = LengthOf(input, row);
    if (length < 1 || length > extent[1])
      throw InvalidArgument("lengths: row " + std::to_string(row) + ": expected 1 to " + std::to_string(extent[1]) + ", got " +
                            std::to_string(length));
  }
}

int64_t LengthOf(const SeriesInput& input, int64_t row) {
  return input.lengths.present() ? input.lengths(row) : input.features.extent[1];
}

RowTarget::RowTarget(const SeriesForm& form, const SeriesInput& input, int64_t row)
    : input_(input), row_(row), column_(TargetColumn(form)) {}

double RowTarget::Last() const {
  int64_t step = LengthOf(input_, row_) - 1;
  while (step > 0 && std::isnan((*this)(step))) --step;
  return (*this)(step);
}

void CheckInput(const SeriesForm& form, const SeriesInput& input) {
  CheckShapes(form, input);
  static const std::string kTarget = "target", kFeatures = "features";
  const bool alone = form.Forecasts() && TargetColumn(form) < 0;
  if (alone != input.target.present())
    throw InvalidArgument(alone ? "target: expected " + QuotedName(form.target) + " at each step, as it is none of the features"
                                : "target: expected none, as the model takes the target from the features or has none");
  for (int64_t row = 0; row < input.features.extent[0]; ++row) {
    const int64_t length = LengthOf(input, row);
    for (int64_t step = 0; step < length; ++step) {
      for (std::size_t f = 0; f < form.features.size(); ++f) {
        const double value = input.features(row, step, f);
        const bool fine =
            std::abs(value) <= kLargest && std::abs((value - form.mean[f]) / form.deviation[f]) <= kLargestStandardised;
        if (!fine && !(std::isnan(value) && MayLackValues(form, f)))  // the name is put together for a refusal alone
          CheckValue("features: column " + QuotedName(form.features[f]), row, step, value, form.mean[f], form.deviation[f]);
      }
      CheckCategories(form, input, row, step);
    }
    if (form.has_times) CheckTimes(form, input.times, row, length);
    const RowTarget target(form, input, row);
    const double deviation = std::min(form.target_deviation, form.target_scale);
    double known = NAN;
    for (int64_t step = 0; form.Forecasts() && step < length; ++step) {
      if (!std::isnan(target(step)) || alone) known = target(step);
      if (std::isnan(known) && !alone)
        RefusePlace(kFeatures, row, step, known, "stands where the target begins; remove what comes before its first value");
      CheckValue(alone ? kTarget : kFeatures, row, step, known, form.target_mean, deviation);
    }
  }
}

int64_t WindowCount(const SeriesForm& form, int64_t length) {
  if (form.Forecasts() || !form.each_step || length <= form.longest) return 1;
  return (length - form.longest + form.longest - 1) / form.longest + 1;
}

SeriesWindow WindowAt(const SeriesForm& form, int64_t row, int64_t length, int64_t window) {
  const int64_t kept = std::min(length, form.steps()), last = length - kept;
  if (form.Forecasts() || !form.each_step) return {row, last, kept, 0};
  const int64_t first = window * form.longest;
  return first < last ? SeriesWindow{row, first, form.longest, 0} : SeriesWindow{row, last, kept, first - last};
}

namespace {

// The numbers of a step for FillFeatures. `before`: those of the step before, whose values stand for missing ones; null: look
// for them.
void Gather(const SeriesForm& form, const SeriesInput& input, int64_t row, int64_t step, const double* before, double* to) {
  const int64_t features = std::ssize(form.features), gaps = std::ssize(form.marks.gaps), texts = form.marks.texts();
  for (int64_t f = 0, g = 0; f < features; ++f) {
    to[f] = input.features(row, step, f);
    const bool missing = std::isnan(to[f]);
    if (missing) to[f] = before != nullptr ? before[f] : LastKnown(input, row, step, f);
    if (g < gaps && form.marks.gaps[g] == form.features[f]) to[features + g++] = missing ? 1 : 0;
  }
  for (int64_t c = 0; c < texts; ++c) to[features + gaps + c] = input.features(row, step, features + c);
}

}  // namespace

SeriesBatch MakeBatch(const SeriesForm& form, const SeriesInput& input, const SeriesWindow* windows, int64_t count,
                      ModelWorkspace& workspace) {
  SeriesBatch batch;
  batch.rows = count;
  for (int64_t w = 0; w < count; ++w) batch.steps = std::max(batch.steps, windows[w].steps);
  const int64_t all = batch.rows * batch.steps, numbers = form.numbers();
  batch.features = View<float, 3>::Contiguous(workspace.TakeRows(all, form.width()).data, {count, batch.steps, form.width()});
  std::fill_n(batch.features.data, batch.features.size(), 0.0f);
  auto* const lengths = workspace.Take<int64_t>(count);
  auto* const times = form.has_times ? workspace.Take<double>(all) : nullptr;
  double* values = workspace.Take<double>(numbers);
  double* before = workspace.Take<double>(numbers);
  for (int64_t w = 0; w < count; ++w) {
    const auto [row, first, steps, read] = windows[w];
    lengths[w] = steps;
    batch.padded = batch.padded || steps < batch.steps;
    if (times != nullptr) std::fill_n(times + w * batch.steps, batch.steps, 0.0);
    if (first > 0) Gather(form, input, row, first - 1, nullptr, before);
    for (int64_t i = 0; i < steps; ++i, std::swap(values, before)) {
      const int64_t step = first + i;
      float* const out = &batch.features(w, i, 0);
      Gather(form, input, row, step, step == 0 ? nullptr : before, values);
      FillFeatures(form, values, step == 0 ? nullptr : before, out);
      if (times == nullptr) continue;
      times[w * batch.steps + i] = (input.times(row, step) - input.times(row, first)) / form.typical_step;
      const double time_before = step == 0 ? 0 : input.times(row, step - 1);
      FillTime(form, input.times(row, step), step == 0 ? nullptr : &time_before, out);
    }
  }
  batch.lengths = lengths;
  if (times != nullptr) batch.times = View<const double, 2>::Contiguous(times, {batch.rows, batch.steps});
  return batch;
}

}  // namespace heed
