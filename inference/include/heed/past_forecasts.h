// Forecasts from a sequence's own past values, without features. The laboratory fits the methods; this header predicts with
// them.
#ifndef HEED_PAST_FORECASTS_H_
#define HEED_PAST_FORECASTS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "heed/calendar_terms.h"
#include "heed/model_workspace.h"
#include "heed/portable_math.h"

namespace heed {

// VisitFields visits a method's fields by their names in a saved model's file. Validate throws InvalidArgument, naming a field
// that does not suit the method.

// The scale of forecasts: logarithms of values, or values in units of `unit`.
struct ForecastScale {
  double unit = 1;
  bool logs = false;

  double Scaled(double value) const { return logs ? portable::Log(value) : value / unit; }
  double Value(double scaled) const { return logs ? portable::Exp(scaled) : scaled * unit; }
};

// Repeats the values of the last season.
struct RepeatedSeason {
  int64_t season = 1;  // in steps

  // Each value is the one a season before, or as many seasons before as needed for a known one. past: at least a season.
  void Foretell(std::span<const double> past, std::span<double> values) const;
};
template <class Visit>
void VisitFields(RepeatedSeason& method, const Visit& visit) {
  visit("season", method.season);
}
void Validate(const RepeatedSeason& method);

// Memory for the parts after each step of a sequence, [steps] each; valid from the end of its first season on.
struct SmoothedParts {
  std::span<double> season, level, trend;
};

// Holt's and Winters' additive recursions with a damped trend, in their error-correction form (Hyndman and Athanasopoulos 2021,
// "Forecasting: principles and practice", section 8.3 and 8.5).
struct Smoothing {
  int64_t season = 1;  // in steps; 1: none
  bool logs = false;   // whether it smooths logarithms of the values
  // Smoothing rates of the parts, each between 0 and 1, and the share of the trend that remains from a step to the next.
  double level = 0, trend = 0, season_rate = 0, damping = 1;

  // The season, or 1 (none) for a sequence of fewer than two seasons.
  int64_t SeasonOf(int64_t steps) const { return steps < 2 * season ? 1 : season; }
  // Starts from the means of the first two seasons, or from the first value if `cycle`, the sequence's season, is 1. scaled: at
  // least one value, see ForecastScale. Returns the sum of squares of the one-step errors after the first season. level and
  // trend of `parts` may be absent.
  double Smooth(std::span<const double> scaled, int64_t cycle, const SmoothedParts& parts) const;
  // Writes the scaled values after step `last`.
  void Foretell(const SmoothedParts& parts, int64_t cycle, int64_t last, std::span<double> scaled) const;
};
template <class Visit>
void VisitFields(Smoothing& method, const Visit& visit) {
  visit("season", method.season), visit("logs", method.logs), visit("level", method.level), visit("trend", method.trend);
  visit("season_rate", method.season_rate), visit("damping", method.damping);
}
void Validate(const Smoothing& method);

// A curve over the calendar: a ridge regression on sines and cosines of dates.
struct Calendar {
  // See CalendarTerms.
  std::vector<std::string> periods = {};
  int64_t harmonics = 1;
  double step = 1;
  bool line = false;  // whether to add a straight line
  bool logs = false;  // whether to fit logarithms of the values

  // times: [steps], dates in seconds since 1970; scaled: known values of the first steps, at least one; curve: [steps]. The
  // penalty of the standardised terms is the square of the number of terms per step, so a long past has hardly any penalty, and
  // a short one gives a flat curve.
  void FitCurve(std::span<const double> times, std::span<const double> scaled, std::span<double> curve,
                ModelWorkspace& workspace) const;
};
template <class Visit>
void VisitFields(Calendar& method, const Visit& visit) {
  visit("periods", method.periods), visit("harmonics", method.harmonics), visit("step", method.step);
  visit("line", method.line), visit("logs", method.logs);
}
void Validate(const Calendar& method);

// The first of the method's periods of which a past of so many seconds spans fewer; null if there is none.
const std::string* PeriodUnseen(const Calendar& method, double seconds);

// The share of a value's distance from a curve that remains so many steps later, over all sequences.
class SharesLeft {
 public:
  // shares: [outputs], memory for the result. steps: total steps of the sequences to add.
  SharesLeft(std::span<double> shares, int64_t steps, ModelWorkspace& workspace);
  // beside: scaled distances of a sequence's known values from its curve.
  void Add(std::span<const double> beside);
  // Fills the shares.
  void Finish();

 private:
  std::span<double> products_, squares_;
  int64_t stride_;
};

}  // namespace heed

#endif  // HEED_PAST_FORECASTS_H_
