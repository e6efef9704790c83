// Forecasts from a sequence's own past values, whole, and no features. The laboratory fits them; what they foretell stands
// here.
#ifndef HEED_PAST_FORECASTS_H_
#define HEED_PAST_FORECASTS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heed/model_workspace.h"
#include "heed/portable_math.h"

namespace heed {

// The fields of a method are visited by their names in the file of a kept model. Validate throws InvalidArgument that names the
// field which is not what the method needs.

// What is forecast in place of a value: its logarithm, or the value in units of `unit`.
struct ForecastScale {
  double unit = 1;
  bool logs = false;

  double Scaled(double value) const { return logs ? portable::Log(value) : value / unit; }
  double Value(double scaled) const { return logs ? portable::Exp(scaled) : scaled * unit; }
};

// The values of the last season again.
struct RepeatedSeason {
  int64_t season = 1;  // in steps

  // What stood there a season before; of more steps ahead than a season has, so many seasons before that it is known.
  // past: at least a season.
  void Foretell(std::span<const double> past, std::span<double> values) const;
};
template <class Visit>
void VisitFields(RepeatedSeason& method, const Visit& visit) {
  visit("season", method.season);
}
void Validate(const RepeatedSeason& method);

// Memory for the parts after each step of a sequence, [steps] each; they hold from the end of its first season on.
struct SmoothedParts {
  std::span<double> season, level, trend;
};

// Holt's and Winters' additive recursions with a damped trend, in their error-correction form (Hyndman and Athanasopoulos 2021,
// "Forecasting: principles and practice", section 8.3 and 8.5).
struct Smoothing {
  int64_t season = 1;  // in steps; 1: none
  bool logs = false;   // whether logarithms of the values are smoothed
  // How fast the parts follow the values, each between 0 and 1, and what is left of the trend from a step to the next.
  double level = 0, trend = 0, season_rate = 0, damping = 1;

  // A sequence of fewer than two seasons has none.
  int64_t SeasonOf(int64_t steps) const { return steps < 2 * season ? 1 : season; }
  // Begun by the means of the first two seasons, or by the first value where `cycle`, the sequence's season, is 1. scaled: at
  // least one value, see ForecastScale. Adds up the squares of the one-step errors after the first season. level and trend of
  // `parts` may be absent.
  double Smooth(std::span<const double> scaled, int64_t cycle, const SmoothedParts& parts) const;
  // The scaled values that follow step `last`.
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
  std::vector<std::string> periods = {};  // of "year", "week" and "day"
  int64_t harmonics = 1;                  // of each period, at most
  double step = 1;                        // seconds of a typical step, which bound the harmonics
  bool line = false;                      // whether there is a straight line too
  bool logs = false;                      // whether logarithms of the values are bent

  // times: [steps] dates in seconds since 1970, of which the scaled values of the first are known, at least one; curve:
  // [steps]. The penalty of the standardised terms is the square of how many there are for a step: a long past is hardly
  // penalised, and with a short one the curve is flat.
  void FitCurve(std::span<const double> times, std::span<const double> scaled, std::span<double> curve,
                ModelWorkspace& workspace) const;
};
template <class Visit>
void VisitFields(Calendar& method, const Visit& visit) {
  visit("periods", method.periods), visit("harmonics", method.harmonics), visit("step", method.step);
  visit("line", method.line), visit("logs", method.logs);
}
void Validate(const Calendar& method);

struct CalendarPeriod {
  std::string_view name;
  double seconds;
};
inline constexpr CalendarPeriod kCalendarPeriods[] = {{"year", 365.2425 * 86400}, {"week", 7 * 86400.0}, {"day", 86400.0}};
// Of a period so many are to be seen before it counts.
inline constexpr double kPeriodsSeen = 1.5;
// The first of the method's periods of which a past of so many seconds does not hold so many; null where it holds all.
const std::string* PeriodUnseen(const Calendar& method, double seconds);

// Of what values lie beside a curve, how much is left so many steps later: over all sequences.
class SharesLeft {
 public:
  // shares: [outputs], memory for the answer. steps: of all sequences that are added.
  SharesLeft(std::span<double> shares, int64_t steps, ModelWorkspace& workspace);
  // beside: what the known values of a sequence lie beside its curve, scaled.
  void Add(std::span<const double> beside);
  // Fills the shares.
  void Finish();

 private:
  std::span<double> products_, squares_;
  int64_t stride_;
};

}  // namespace heed

#endif  // HEED_PAST_FORECASTS_H_
