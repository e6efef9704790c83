// Dates as moments.
#ifndef HEED_LAB_SERIES_DATE_H_
#define HEED_LAB_SERIES_DATE_H_

#include <optional>
#include <string>
#include <string_view>

namespace heed::lab {

// What comes first in dates as 01/02/2000, whose year stands behind both.
enum class DateOrder { kNone, kDay, kMonth };

// "day", "month", and "" for kNone. The first throws InvalidArgument for another name.
DateOrder ParseDateOrder(const std::string& name);
std::string ToString(DateOrder order);

// Seconds since 1970 began in UTC, of
//   2024-03-01, 2024/3/1, 2024.03.01     a day
//   2024-03, 2024/03, 2024 Q1            the month's, or the quarter's, first day
//   1991 Jul, Jul 1991, July-1991        the same, of a month by its English name
//   1 Jan 2000, Jan 1 2000, 2000-Jan-01  a day of it
//   31.12.2000                           the day comes first
//   12/31/2000, 31/12/2000               as `order` tells; none of it is no date
// and of a day with a time behind a T or a space: 12:30, 12:30:05.25, 03:30 PM, then perhaps Z, UTC, GMT or +01:00; no zone is
// UTC. Nothing where the text is none of them; days that the calendar does not have are none.
std::optional<double> SecondsOfDate(std::string_view text, DateOrder order = DateOrder::kNone);

// Of a text that is a date of either order, as 01/02/2000: kDay or kMonth where only that one is a day of the calendar, kNone
// where both are. Nothing for all other texts.
std::optional<DateOrder> OrderIn(std::string_view text);

// The day of a moment, as 2024-03-01.
std::string DayOf(double seconds);
// The same with its time, as 2024-03-01T12:30:00, of a second's parts as 2024-03-01T12:30:00.250; of a whole day the day.
std::string MomentOf(double seconds);

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_DATE_H_
