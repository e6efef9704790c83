#include "heed/calendar_terms.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>

#include "heed/portable_math.h"

namespace heed {
namespace {

int64_t HarmonicsOf(const CalendarTerms& terms, double seconds) {
  return std::min(terms.harmonics, static_cast<int64_t>(std::min(std::floor(seconds / (2 * terms.step)), 1e6)));
}

}  // namespace

double SecondsOfPeriod(std::string_view name) {
  const auto* const found = std::ranges::find(kCalendarPeriods, name, &CalendarPeriod::name);
  return found == std::end(kCalendarPeriods) ? 0 : found->seconds;
}

int64_t CalendarTerms::count() const {
  int64_t terms = 0;
  for (const std::string& period : periods) terms += 2 * HarmonicsOf(*this, SecondsOfPeriod(period));
  return terms;
}

void CalendarTerms::Fill(double time, double* terms) const {
  for (const std::string& period : periods) {
    const double seconds = SecondsOfPeriod(period);
    for (int64_t k = 1, count = HarmonicsOf(*this, seconds); k <= count; ++k) {
      const double angle = time * (2 * std::numbers::pi * static_cast<double>(k) / seconds);
      *terms++ = portable::Cos(angle), *terms++ = portable::Sin(angle);
    }
  }
}

}  // namespace heed
