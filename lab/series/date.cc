#include "lab/series/date.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <span>

#include <fmt/core.h>

#include "heed/error.h"
#include "heed/safetensors.h"

namespace heed::lab {
namespace {

constexpr std::array<std::string_view, 12> kMonths = {"january", "february", "march",     "april",   "may",      "june",
                                                      "july",    "august",   "september", "october", "november", "december"};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

// All take what stands at the front of a text off it; those that return false did not find it.

bool TakeAny(std::string_view& text, std::string_view marks) {
  const bool found = !text.empty() && marks.find(text.front()) != std::string_view::npos;
  if (found) text.remove_prefix(1);
  return found;
}

void TakeSpaces(std::string_view& text) {
  while (TakeAny(text, " ")) continue;
}

bool TakeDigits(std::string_view& text, std::size_t least, std::size_t most, int64_t& number) {
  const std::size_t all = std::ranges::find_if_not(text, IsDigit) - text.begin(), count = std::min(all, most);
  if (count < least) return false;
  std::from_chars(text.begin(), text.begin() + count, number);
  text.remove_prefix(count);
  return true;
}

// The letters that come next, in lower case.
std::string TakeWord(std::string_view& text) {
  std::string word(text.begin(), std::ranges::find_if_not(text, IsLetter));
  text.remove_prefix(word.size());
  std::ranges::transform(word, word.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return word;
}

bool TakeMonth(std::string_view& text, int64_t& month) {
  const std::string word = TakeWord(text);
  const auto found = std::ranges::find_if(
      kMonths, [&](std::string_view name) { return word == name || (word.size() == 3 && name.starts_with(word)); });
  month = found - kMonths.begin() + 1;
  TakeAny(text, ".");
  return found != kMonths.end();
}

struct Day {
  int64_t year = 0, month = 1, day = 1;
};

// How days are written, the first that fits:
//   Y     four digits of a year
//   M, D  two digits of a month, of a day; m, d: one or two
//   q     the digit of a quarter
//   b     the English name of a month, whole or its first three letters, perhaps with a point behind
//   [..]  one of these marks; before ?: or none; before +: and spaces behind it
//   $     the end, where others end before a time too
// All else stands for itself.
constexpr std::string_view kForms[] = {"Y-M-D",
                                       "Y-M",
                                       "Y/m/d",
                                       "Y/m",
                                       "Y.m.d",
                                       "Y[-/. ]?[Qq]q",
                                       "Y[-/. ]?b[-/ ]d",
                                       "Y[-/. ]?b$",
                                       "d.m.Y",
                                       "d[-/. ]b[-/., ]+Y",
                                       "b[-/ ]+d[-/, ]+Y",
                                       "b[-/ ]+Y"};
constexpr std::string_view kDayFirst[] = {"d/m/Y", "d-m-Y"}, kMonthFirst[] = {"m/d/Y", "m-d-Y"};

// One piece of a form, which is then behind it.
bool TakePiece(std::string_view& form, std::string_view& text, Day& day) {
  const char piece = form.front();
  form.remove_prefix(1);
  if (piece == 'Y') return TakeDigits(text, 4, 4, day.year);
  if (piece == 'M' || piece == 'm') return TakeDigits(text, piece == 'M' ? 2 : 1, 2, day.month);
  if (piece == 'D' || piece == 'd') return TakeDigits(text, piece == 'D' ? 2 : 1, 2, day.day);
  if (piece == 'b') return TakeMonth(text, day.month);
  if (piece == '$') return text.empty();
  if (piece == 'q') {
    const bool found = TakeDigits(text, 1, 1, day.month);
    day.month = 3 * day.month - 2;
    return found;
  }
  if (piece != '[') return TakeAny(text, {&piece, 1});
  const std::size_t end = form.find(']');
  const bool found = TakeAny(text, form.substr(0, end));
  form.remove_prefix(end + 1);
  if (TakeAny(form, "+")) TakeSpaces(text);
  return TakeAny(form, "?") || found;
}

// The day of a text in one of these forms, which is then behind it.
std::optional<Day> TakeDay(std::string_view& text, std::span<const std::string_view> forms) {
  const auto digits = std::ranges::find_if_not(text, IsDigit) - text.begin();
  const std::string_view first = digits == 4 ? "Y" : digits > 0 ? "dm" : "b";  // which forms may fit
  for (std::string_view form : forms) {
    if (first.find(form.front()) == std::string_view::npos) continue;
    Day day;
    std::string_view rest = text;
    bool fits = true;
    while (fits && !form.empty()) fits = TakePiece(form, rest, day);
    if (!fits) continue;
    text = rest;
    return day;
  }
  return std::nullopt;
}

// Of a time and its zone behind a day: seconds since the day began in UTC.
std::optional<double> SecondsOfTime(std::string_view text) {
  int64_t hour = 0, minute = 0, second = 0, east_hours = 0, east_minutes = 0;
  double fraction = 0;
  if (!TakeAny(text, "T ")) return std::nullopt;
  TakeSpaces(text);
  if (!TakeDigits(text, 1, 2, hour) || !TakeAny(text, ":") || !TakeDigits(text, 2, 2, minute)) return std::nullopt;
  if (TakeAny(text, ":")) {
    if (!TakeDigits(text, 2, 2, second)) return std::nullopt;
    if (TakeAny(text, ".,")) {
      if (text.empty() || !IsDigit(text.front())) return std::nullopt;
      double place = 1;
      for (; !text.empty() && IsDigit(text.front()); text.remove_prefix(1)) fraction += (text.front() - '0') * (place /= 10);
    }
  }
  if (minute > 59 || second > 60) return std::nullopt;  // 60: of a leap second
  if (hour > 24 || (hour == 24 && (minute > 0 || second > 0 || fraction > 0))) return std::nullopt;
  TakeSpaces(text);
  std::string word = TakeWord(text);
  if (word == "am" || word == "pm") {
    if (hour < 1 || hour > 12) return std::nullopt;
    hour = hour % 12 + (word == "pm" ? 12 : 0);
    TakeSpaces(text);
    word = TakeWord(text);
  }
  if (!word.empty() && word != "z" && word != "utc" && word != "gmt") return std::nullopt;
  if (const bool west = text.starts_with('-'); word.empty() && TakeAny(text, "+-")) {
    if (!TakeDigits(text, 2, 2, east_hours)) return std::nullopt;
    if (!text.empty()) {
      TakeAny(text, ":");
      if (!TakeDigits(text, 2, 2, east_minutes)) return std::nullopt;
    }
    if (east_hours > 23 || east_minutes > 59) return std::nullopt;
    if (west) east_hours = -east_hours, east_minutes = -east_minutes;
  }
  if (!text.empty()) return std::nullopt;
  return static_cast<double>(3600 * (hour - east_hours) + 60 * (minute - east_minutes) + second) + fraction;
}

}  // namespace

DateOrder ParseDateOrder(const std::string& name) {
  if (name.empty()) return DateOrder::kNone;
  if (name == "day") return DateOrder::kDay;
  if (name == "month") return DateOrder::kMonth;
  throw InvalidArgument("date_order: '" + ShownName(name) + "' is unknown; choose day or month");
}

std::string ToString(DateOrder order) { return order == DateOrder::kDay ? "day" : order == DateOrder::kMonth ? "month" : ""; }

std::optional<double> SecondsOfDate(std::string_view text, DateOrder order) {
  std::optional<Day> read = TakeDay(text, kForms);
  if (!read && order == DateOrder::kDay) read = TakeDay(text, kDayFirst);
  if (!read && order == DateOrder::kMonth) read = TakeDay(text, kMonthFirst);
  if (!read) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(read->year)),
                                         std::chrono::month(static_cast<unsigned>(read->month)),
                                         std::chrono::day(static_cast<unsigned>(read->day))};
  const std::optional<double> seconds = text.empty() ? 0 : SecondsOfTime(text);
  if (!date.ok() || !seconds) return std::nullopt;
  return static_cast<double>(std::chrono::sys_days(date).time_since_epoch().count()) * 86400 + *seconds;
}

std::optional<DateOrder> OrderIn(std::string_view text) {
  if (SecondsOfDate(text, DateOrder::kNone)) return std::nullopt;
  const bool day = SecondsOfDate(text, DateOrder::kDay).has_value();
  const bool month = SecondsOfDate(text, DateOrder::kMonth).has_value();
  if (!day && !month) return std::nullopt;
  return day && month ? DateOrder::kNone : day ? DateOrder::kDay : DateOrder::kMonth;
}

std::string DayOf(double seconds) {
  const std::chrono::year_month_day date{
      std::chrono::sys_days(std::chrono::days(static_cast<int64_t>(std::floor(seconds / 86400))))};
  return fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                     static_cast<unsigned>(date.day()));
}

std::string MomentOf(double seconds) {
  const auto all = static_cast<int64_t>(std::llround(seconds * 1000));
  const auto day = static_cast<double>(all - ((all % 86400000) + 86400000) % 86400000) / 1000;
  const int64_t within = all - std::llround(day * 1000), second = within / 1000;
  if (within == 0) return DayOf(day);
  return fmt::format("{}T{:02}:{:02}:{:02}{}", DayOf(day), second / 3600, second / 60 % 60, second % 60,
                     within % 1000 == 0 ? "" : fmt::format(".{:03}", within % 1000));
}

}  // namespace heed::lab
