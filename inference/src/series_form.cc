#include "heed/series_form.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iterator>
#include <string_view>
#include <utility>

#include "heed/error.h"
#include "heed/shown_name.h"

namespace heed {
namespace {

constexpr int64_t kMostExtent = int64_t{1} << 20;
constexpr double kFarthest = 1e15;  // in typical changes; squares of a float are finite up to there

[[noreturn]] void RefuseScale(const std::string& names, double value) {
  char text[32];
  const char* const end = std::to_chars(std::begin(text), std::end(text), value).ptr;
  throw InvalidArgument(names + ": " + std::string(static_cast<const char*>(text), end) + " is no scale");
}

}  // namespace

void Validate(const SeriesForm& form) {
  constexpr std::array<std::string_view, 3> kGoals = {"classification", "regression", "forecast"};
  if (std::ranges::find(kGoals, form.goal) == kGoals.end())
    throw InvalidArgument("goal: " + QuotedName(form.goal) + " is unknown; expected classification, regression or forecast");
  for (const auto& [name, value] : {std::pair("context", form.context), {"horizon", form.horizon}, {"longest", form.longest}}) {
    if (value < 1 || value > kMostExtent)
      throw InvalidArgument(std::string(name) + ": " + std::to_string(value) + " is not in 1 to " +
                            std::to_string(kMostExtent));
  }
  if (form.has_times == form.time.empty()) throw InvalidArgument("time: expected the name of a column where has_times is true");
  if (form.has_dates && !form.has_times) throw InvalidArgument("has_dates: expected false, as has_times is");
  if (form.Forecasts() && !form.each_step) throw InvalidArgument("each_step: a forecast has a target at each step");
  if (form.Classifies() == form.classes.empty()) throw InvalidArgument("classes: expected those of a classification alone");
  const auto require = [&](const char* name, const std::vector<double>& values, bool positive) {
    if (values.size() != form.features.size())
      throw InvalidArgument(std::string(name) + ": expected a number for each of " + std::to_string(form.features.size()) +
                            " features, got " + std::to_string(values.size()));
    for (const double value : values) {
      if (!std::isfinite(value) || (positive && !(value > 0))) RefuseScale(name, value);
    }
  };
  if (form.features.empty()) throw InvalidArgument("features: expected one or more");
  require("mean", form.mean, false), require("deviation", form.deviation, true), require("change", form.change, true);
  for (const double scale : {form.target_deviation, form.target_scale, form.typical_step}) {
    if (!std::isfinite(scale) || !(scale > 0)) RefuseScale("target_deviation, target_scale, typical_step", scale);
  }
}

// Levels may leave the range of the training part for good, where no model has learned anything; changes seldom do.
void FillFeatures(const SeriesForm& form, const double* values, const double* before, float* out) {
  for (std::size_t f = 0; f < form.features.size(); ++f) {
    if (!form.Forecasts()) {
      out[f] = static_cast<float>((values[f] - form.mean[f]) / form.deviation[f]);
      continue;
    }
    const double moved = before == nullptr ? 0 : (values[f] - before[f]) / form.change[f];
    out[f] = static_cast<float>(std::clamp(moved, -kFarthest, kFarthest));
  }
}

}  // namespace heed
