#include "lab/series/magnitudes.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

#include "heed/error.h"
#include "heed/safetensors.h"
#include "lab/report/figure.h"

namespace heed::lab {
namespace {

constexpr double kLargest = 1e100;
constexpr double kLeastDeviation = 1e-100;         // of the target: its square is far from vanishing
constexpr double kLargestStandardised = 1e15;      // squares of a float, and sums of millions of them, are finite
constexpr double kMostSteps = 9007199254740992.0;  // 2^53

bool Foretells(const SeriesData& data) { return !data.Classifies(); }

// Calls visit(value, step, feature) for every feature of a sequence that is known.
void ForEachFeature(const SeriesData& data, const SeriesSequence& sequence,
                    const std::function<void(double, int64_t, int64_t)>& visit) {
  const int64_t each = data.numbers();
  for (int64_t step = 0; step < sequence.steps; ++step) {
    for (int64_t f = 0; f < std::ssize(data.features); ++f) {
      const double value = sequence.features[step * each + f];
      if (!std::isnan(value)) visit(value, step, f);
    }
  }
}

// Times lie within 2^53 typical steps of the first of their window, beyond which they would lose whole steps, and differ by
// more than what vanishes beside a typical step. Windows of `steps` steps begin at every step (sliding) or are the ends of
// sequences.
void RequireTimes(const SeriesData& data, double typical_step, int64_t steps, bool sliding) {
  for (const SeriesSequence& sequence : data.sequences) {
    const std::vector<double>& times = sequence.times;
    const int64_t count = std::ssize(times), end = std::max<int64_t>(0, count - steps);
    for (int64_t i = 1; i < count; ++i) {
      const int64_t first = sliding ? std::max<int64_t>(0, i - steps + 1) : std::min(i, end);
      const double since = (times[i] - times[i - 1]) / typical_step, whole = (times[i] - times[first]) / typical_step;
      if (since > 0 && std::isfinite(since) && whole <= kMostSteps) continue;
      throw FileError(data.Place(sequence, i, data.time) + FormatNumber(times[i]) + " lies " + FormatNumber(whole) +
                      " typical steps (of " + FormatNumber(typical_step) + ") after the start of its window and " +
                      FormatNumber(since) + " after the row before; heed tells times apart within 2^53 typical steps");
    }
  }
}

}  // namespace

void RequireMagnitudes(const SeriesData& data) {
  for (const SeriesSequence& sequence : data.sequences) {
    const auto require = [&](double value, int64_t step, const std::string& column) {
      if (std::abs(value) <= kLargest) return;
      if (std::isnan(value)) {
        throw FileError(data.Place(sequence, step, column) +
                        "the sequence begins without a value of the target; leave out the rows before the first value");
      }
      throw FileError(data.Place(sequence, step, column) + FormatNumber(value) +
                      " is beyond 1e100, too large to compute with; give the column in another unit");
    };
    ForEachFeature(data, sequence,
                   [&](double value, int64_t step, int64_t feature) { require(value, step, data.features[feature]); });
    for (int64_t i = 0; i < std::ssize(sequence.times); ++i) require(sequence.times[i], i, data.time);
    for (int64_t i = 0; Foretells(data) && i < std::ssize(sequence.targets); ++i) require(sequence.targets[i], i, data.target);
  }
}

void RequireStandardised(const SeriesData& data, const SeriesForm& form) {
  const double target_deviation = std::min(form.target_deviation, form.target_scale);
  if (Foretells(data) && target_deviation < kLeastDeviation) {
    throw FileError(data.name + ": column '" + ShownName(data.target) + "': its values differ by about " +
                    FormatNumber(target_deviation) + "; their squares underflow: give it in another unit");
  }
  for (const SeriesSequence& sequence : data.sequences) {
    const auto require = [&](double value, double mean, double deviation, int64_t step, const std::string& column) {
      if (std::abs((value - mean) / deviation) <= kLargestStandardised) return;
      throw FileError(data.Place(sequence, step, column) + FormatNumber(value) +
                      " lies more than 1e15 deviations from the mean of the training part (" + FormatNumber(mean) +
                      ", deviation " + FormatNumber(deviation) + "); is it a mistake?");
    };
    ForEachFeature(data, sequence, [&](double value, int64_t step, int64_t feature) {
      require(value, form.mean[feature], form.deviation[feature], step, data.features[feature]);
    });
    for (int64_t i = 0; Foretells(data) && i < std::ssize(sequence.targets); ++i) {
      require(sequence.targets[i], form.target_mean, target_deviation, i, data.target);
    }
  }
}

void RequireComputable(const SeriesData& data, const SeriesForm& form) {
  RequireMagnitudes(data);
  RequireStandardised(data, form);
  if (form.has_times) RequireTimes(data, form.typical_step, form.steps(), form.Forecasts());
}

}  // namespace heed::lab
