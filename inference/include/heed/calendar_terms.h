// Sines and cosines of dates: the time of the year, of the week and of the day as numbers.
#ifndef HEED_CALENDAR_TERMS_H_
#define HEED_CALENDAR_TERMS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace heed {

struct CalendarPeriod {
  std::string_view name;
  double seconds;
};
inline constexpr CalendarPeriod kCalendarPeriods[] = {{"year", 365.2425 * 86400}, {"week", 7 * 86400.0}, {"day", 86400.0}};
// A past must span so many of a period.
inline constexpr double kPeriodsSeen = 1.5;

// The seconds of the period of this name, 0 if there is none.
double SecondsOfPeriod(std::string_view name);

// Cosine and sine of an angle that turns once a period, twice, and so on.
struct CalendarTerms {
  std::span<const std::string> periods;  // names among kCalendarPeriods, in the order of their terms
  int64_t harmonics = 1;                 // of each period, at most
  double step = 1;                       // seconds of a typical step: a harmonic takes at least two of them

  int64_t count() const;
  // Of a date in seconds since 1970. terms: [count()], overwritten.
  void Fill(double time, double* terms) const;
};

}  // namespace heed

#endif  // HEED_CALENDAR_TERMS_H_
