#include "heed/series_form.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

#include "heed/error.h"
#include "heed/portable_math.h"
#include "heed/shape_text.h"
#include "heed/shown_name.h"

namespace heed {
namespace {

constexpr int64_t kMostExtent = int64_t{1} << 20;
constexpr double kFarthest = 1e15;  // in typical changes; squares of a float are finite up to there
constexpr int64_t kMostTerms = 4 * std::size(kCalendarPeriods);  // cosine and sine of two harmonics
constexpr double kDay = 86400, kMonth = 365.2425 * kDay / 12;    // seconds
constexpr double kFarthestDate = 1e11;  // seconds from 1970, some 3000 years, which calendars here hold

[[noreturn]] void RefuseScale(const std::string& names, double value) {
  throw InvalidArgument(names + ": " + NumberText(value) + " is not a finite number above 0");
}

void Validate(const SeriesMarks& marks, const std::vector<std::string>& features) {
  auto next = features.begin();
  for (const std::string& gap : marks.gaps) {
    next = std::find(next, features.end(), gap);
    if (next == features.end())
      throw InvalidArgument("gaps: " + QuotedName(gap) + " is none of the features, or they stand in another order");
    ++next;
  }
  const std::vector<std::string>& columns = marks.category_columns;
  if (columns.size() != marks.category_names.size())
    throw InvalidArgument("category_columns, category_names: expected as many of one as of the other");
  std::set<std::string_view> seen;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if ((i == 0 || columns[i] != columns[i - 1]) && !seen.insert(columns[i]).second)
      throw InvalidArgument("category_columns: expected the categories of " + QuotedName(columns[i]) + " one behind the other");
  }
}

}  // namespace

int64_t SeriesMarks::texts() const {
  int64_t count = 0;
  for (std::size_t i = 0; i < category_columns.size(); ++i)
    count += i == 0 || category_columns[i] != category_columns[i - 1] ? 1 : 0;
  return count;
}

std::vector<std::string> SeriesMarks::Categories() const {
  std::vector<std::string> columns;
  for (const std::string& column : category_columns) {
    if (columns.empty() || columns.back() != column) columns.push_back(column);
  }
  return columns;
}

int64_t SeriesMarks::Category(const std::string& column, const std::string& text) const {
  int64_t index = 0;
  for (std::size_t i = 0; i < category_columns.size(); ++i) {
    if (category_columns[i] != column) continue;
    if (category_names[i] == text) return index;
    ++index;
  }
  return -1;
}

bool MayLack(const std::string& field) {
  constexpr std::array<std::string_view, 5> kNew = {"gaps", "category_columns", "category_names", "date_order", "periods"};
  return std::ranges::find(kNew, field) != kNew.end();
}

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
  std::set<std::string_view> classes;
  for (const std::string& name : form.classes) {
    if (!classes.insert(name).second) throw InvalidArgument("classes: " + QuotedName(name) + " stands twice");
  }
  const auto require = [&](const char* name, const std::vector<double>& values, bool positive) {
    if (values.size() != form.features.size())
      throw InvalidArgument(std::string(name) + ": expected a number for each of " + std::to_string(form.features.size()) +
                            " features, got " + std::to_string(values.size()));
    for (const double value : values) {
      if (!std::isfinite(value) || (positive && !(value > 0))) RefuseScale(name, value);
    }
  };
  Validate(form.marks, form.features);
  if (!form.date_order.empty() && form.date_order != "day" && form.date_order != "month")
    throw InvalidArgument("date_order: " + QuotedName(form.date_order) + " is unknown; expected day, month or none");
  if (form.features.empty() && (form.Forecasts() || form.marks.category_names.empty()))
    throw InvalidArgument("features: expected one or more");
  require("mean", form.mean, false), require("deviation", form.deviation, true), require("change", form.change, true);
  for (const double scale : {form.target_deviation, form.target_scale, form.typical_step}) {
    if (!std::isfinite(scale) || !(scale > 0)) RefuseScale("target_deviation, target_scale, typical_step", scale);
  }
  if (!form.periods.empty() && !(form.Forecasts() && form.has_dates))
    throw InvalidArgument("periods: expected none, as the model forecasts nothing from dates");
  for (auto period = form.periods.begin(); period != form.periods.end(); ++period) {
    if (!(SecondsOfPeriod(*period) >= 2 * form.typical_step) || std::find(form.periods.begin(), period, *period) != period)
      throw InvalidArgument(
          "periods: expected each of year, week and day at most once, none shorter than two typical steps, got " +
          QuotedName(*period));
  }
}

namespace {

std::chrono::sys_days DayAt(double time) {
  return std::chrono::sys_days(std::chrono::days(static_cast<int64_t>(std::floor(time / kDay))));
}
bool IsWorkingDay(double time) { return std::chrono::weekday(DayAt(time)).iso_encoding() <= 5; }

unsigned LastDay(std::chrono::year_month month) { return static_cast<unsigned>((month / std::chrono::last).day()); }

// The day of the month that all dates lie on, 31 where each is the last of its month; 0: there is none.
unsigned DayOfMonth(std::span<const double> dates) {
  bool ends = true;
  unsigned latest = 0;
  for (const double time : dates) {
    const std::chrono::year_month_day date(DayAt(time));
    const auto day = static_cast<unsigned>(date.day());
    ends = ends && day == LastDay(date.year() / date.month()), latest = std::max(latest, day);
  }
  const auto lies = [latest](double time) {
    const std::chrono::year_month_day date(DayAt(time));
    return static_cast<unsigned>(date.day()) == std::min(latest, LastDay(date.year() / date.month()));
  };
  return ends ? 31 : std::ranges::all_of(dates, lies) ? latest : 0;
}

}  // namespace

void ContinueTimes(const SeriesForm& form, std::span<const double> times, std::span<double> next) {
  constexpr int64_t kSeen = 12, kWorkingDays = 5, kMostMonths = 12 * 10000;
  const int64_t seen = std::min({std::ssize(times), kSeen, form.context + 1});
  const std::span recent = times.last(static_cast<std::size_t>(seen));
  const double step = form.typical_step, last = times.back();
  const bool dates = form.has_dates && std::max({-recent.front(), last, step}) < kFarthestDate;
  const auto months = static_cast<int64_t>(dates ? std::round(step / kMonth) : 0);
  const bool in_months = months > 0 && std::abs(step - static_cast<double>(months) * kMonth) <= 2 * kDay &&
                         months <= kMostMonths / std::max<int64_t>(1, std::ssize(next));
  const unsigned day = in_months ? DayOfMonth(recent) : 0;
  const bool working = dates && step == kDay && seen > kWorkingDays && std::ranges::all_of(recent, IsWorkingDay);
  const std::chrono::year_month_day last_day(dates ? DayAt(last) : std::chrono::sys_days());
  double time = last;
  for (int64_t h = 0; h < std::ssize(next); ++h) {
    if (day > 0) {
      const std::chrono::year_month month = last_day.year() / last_day.month() + std::chrono::months(months * (h + 1));
      const std::chrono::sys_days date(month / std::chrono::day(std::min(day, LastDay(month))));
      next[h] = static_cast<double>(date.time_since_epoch().count()) * kDay + (last - std::floor(last / kDay) * kDay);
      continue;
    }
    do time += step;
    while (working && !IsWorkingDay(time));
    next[h] = time;
  }
}

// Levels may leave the range of the training part for good, where no model has learned anything; changes seldom do.
void FillFeatures(const SeriesForm& form, const double* values, const double* before, float* out) {
  const std::size_t features = form.features.size(), gaps = form.marks.gaps.size();
  for (std::size_t f = 0; f < features; ++f) {
    double read = 0;
    if (!form.Forecasts()) {
      read = (values[f] - form.mean[f]) / form.deviation[f];
    } else if (before != nullptr) {
      read = std::clamp((values[f] - before[f]) / form.change[f], -kFarthest, kFarthest);
    }
    out[f] = static_cast<float>(std::isnan(read) ? 0 : read);
  }
  for (std::size_t g = 0; g < gaps; ++g) out[features + g] = static_cast<float>(values[features + g]);
  const std::vector<std::string>& columns = form.marks.category_columns;
  const double* category = values + features + gaps;
  double index = 0;  // of a name in its column
  for (std::size_t i = 0; i < columns.size(); ++i, ++index) {
    if (i > 0 && columns[i] != columns[i - 1]) ++category, index = 0;
    out[features + gaps + i] = *category == index ? 1.0F : 0.0F;
  }
}

void FillTime(const SeriesForm& form, double time, const double* before, float* out) {
  std::array<double, kMostTerms> terms{};
  const CalendarTerms calendar = form.calendar();
  calendar.Fill(time, terms.data());
  out += std::ssize(form.features) + form.marks.count();
  for (int64_t t = 0, count = calendar.count(); t < count; ++t) *out++ = static_cast<float>(terms[t]);
  *out = before == nullptr ? 0 : static_cast<float>(portable::Log((time - *before) / form.typical_step));
}

}  // namespace heed
