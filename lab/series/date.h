// Dates as moments.
#ifndef HEED_LAB_SERIES_DATE_H_
#define HEED_LAB_SERIES_DATE_H_

#include <optional>
#include <string_view>

namespace heed::lab {

// Seconds since 1970 began in UTC, of a date as ISO 8601 writes it: 2024-03-01 or 2024-03-01T12:30:05.25+01:00, where a space
// may stand for the T, seconds may be left out, and no zone is UTC. Nothing where the text is none; days that the calendar does
// not have are none.
std::optional<double> SecondsOfDate(std::string_view text);

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_DATE_H_
