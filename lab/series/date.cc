#include "lab/series/date.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cmath>
#include <cstdint>

#include <fmt/core.h>

#include "heed/error.h"
#include "heed/safetensors.h"

namespace heed::lab {
namespace {

constexpr std::array<std::string_view, 12> kMonths = {"january", "february", "march",     "april",   "may",      "june",
                                                      "july",    "august",   "september", "october", "november", "december"};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

// Reads the parts of a date one by one; what does not stand there makes all that follows nothing.
class DateReader {
 public:
  explicit DateReader(std::string_view text) : rest_(text) {}

  // From `least` to `most` digits, as a number from low to high.
  int64_t Digits(std::size_t least, std::size_t most, int64_t low, int64_t high) {
    const std::size_t count = std::min(CountDigits(), most);
    int64_t number = 0;
    for (const char c : rest_.substr(0, count)) number = 10 * number + (c - '0');
    ok_ = ok_ && count >= least && number >= low && number <= high;
    rest_.remove_prefix(count);
    return number;
  }
  std::size_t CountDigits() const { return std::ranges::find_if_not(rest_, IsDigit) - rest_.begin(); }
  // The letters that come next, in lower case.
  std::string Word() {
    std::string word;
    while (!rest_.empty() && IsLetter(rest_.front())) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(rest_.front())));
      rest_.remove_prefix(1);
    }
    return word;
  }
  // Of an English name, whole or its first three letters, perhaps with a point behind; 1 is January.
  int64_t Month() {
    const std::string word = Word();
    const auto found = std::ranges::find_if(
        kMonths, [&](std::string_view name) { return word == name || (word.size() == 3 && name.starts_with(word)); });
    ok_ = ok_ && found != kMonths.end();
    Take(".");
    return found - kMonths.begin() + 1;
  }
  char Next() const { return rest_.empty() ? '\0' : rest_.front(); }
  bool Take(std::string_view any) {
    const bool found = !rest_.empty() && any.find(rest_.front()) != std::string_view::npos;
    if (found) rest_.remove_prefix(1);
    return found;
  }
  void Need(std::string_view any) { ok_ = Take(any) && ok_; }
  // One of these, and spaces behind it.
  void Gap(std::string_view any) {
    Need(any);
    while (Take(" ")) continue;
  }
  // Behind the point of a second.
  double Fraction() {
    double value = 0, place = 1;
    ok_ = ok_ && IsDigit(Next());
    while (IsDigit(Next())) {
      value += (rest_.front() - '0') * (place /= 10);
      rest_.remove_prefix(1);
    }
    return value;
  }
  // Hours and minutes east of UTC, in seconds; none is UTC.
  int64_t Zone() {
    while (Take(" ")) continue;
    if (IsLetter(Next())) {
      const std::string word = Word();
      ok_ = ok_ && (word == "z" || word == "utc" || word == "gmt");
      return 0;
    }
    if (rest_.empty()) return 0;
    const bool west = rest_.front() == '-';
    Need("+-");
    const int64_t hours = Digits(2, 2, 0, 23);
    if (rest_.empty()) return (west ? -3600 : 3600) * hours;
    Take(":");
    return (west ? -60 : 60) * (60 * hours + Digits(2, 2, 0, 59));
  }
  // Whether AM or PM stands next, which is then behind it.
  bool TakeHalf(bool& afternoon) {
    DateReader ahead = *this;
    while (ahead.Take(" ")) continue;
    const std::string word = ahead.Word();
    afternoon = word == "pm";
    if (word != "am" && word != "pm") return false;
    *this = ahead;
    return true;
  }
  bool Whole() const { return ok_ && rest_.empty(); }
  bool More() const { return !rest_.empty(); }
  void Refuse() { ok_ = false; }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

struct Day {
  int64_t year = 0, month = 1, day = 1;
};

bool IsDay(const Day& day) {
  return std::chrono::year_month_day{std::chrono::year(static_cast<int>(day.year)),
                                     std::chrono::month(static_cast<unsigned>(day.month)),
                                     std::chrono::day(static_cast<unsigned>(day.day))}
      .ok();
}

// What follows a year that stands first.
Day AfterYear(DateReader& reader, int64_t year) {
  Day day{year};
  const char mark = reader.Next();
  const std::string_view same(&mark, 1);
  reader.Take("-/. ");
  if (reader.Next() == 'Q' || reader.Next() == 'q') {
    reader.Take("Qq");
    day.month = 3 * reader.Digits(1, 1, 1, 4) - 2;
    return day;
  }
  if (IsLetter(reader.Next())) {
    day.month = reader.Month();
    if (reader.Take("-/ ")) day.day = reader.Digits(1, 2, 1, 31);
    return day;
  }
  const std::size_t least = mark == '-' ? 2 : 1;
  if (mark != '-' && mark != '/' && mark != '.') reader.Refuse();
  day.month = reader.Digits(least, 2, 1, 12);
  if (mark == '.' && reader.Next() != '.') reader.Refuse();  // 2024.03 is a number
  if (reader.Take(same)) day.day = reader.Digits(least, 2, 1, 31);
  return day;
}

// A day or a month that stands first, as a number; the year is the last.
Day EndingInYear(DateReader& reader, DateOrder order) {
  Day day;
  int64_t first = reader.Digits(1, 2, 1, 31);
  const char mark = reader.Next();
  const std::string_view same(&mark, 1);
  reader.Need("-/. ");
  if (IsLetter(reader.Next())) {
    day.day = first, day.month = reader.Month();
    reader.Gap("-/., ");
  } else {
    int64_t second = reader.Digits(1, 2, 1, 31);
    reader.Need(same);
    if (mark == ' ') reader.Refuse();
    if (mark == '.') order = DateOrder::kDay;
    if (order == DateOrder::kNone) reader.Refuse();
    day.day = order == DateOrder::kDay ? first : second, day.month = order == DateOrder::kDay ? second : first;
  }
  day.year = reader.Digits(4, 4, 0, 9999);
  return day;
}

Day BeginningWithMonth(DateReader& reader) {
  Day day;
  day.month = reader.Month();
  reader.Gap("-/ ");
  if (reader.CountDigits() < 4) {
    day.day = reader.Digits(1, 2, 1, 31);
    reader.Gap("-/, ");
  }
  day.year = reader.Digits(4, 4, 0, 9999);
  return day;
}

Day ReadDay(DateReader& reader, DateOrder order) {
  if (IsLetter(reader.Next())) return BeginningWithMonth(reader);
  if (reader.CountDigits() == 4) return AfterYear(reader, reader.Digits(4, 4, 0, 9999));
  return EndingInYear(reader, order);
}

// Seconds since the day began in UTC.
double ReadTime(DateReader& reader) {
  reader.Gap("T ");
  int64_t hour = reader.Digits(1, 2, 0, 24);
  reader.Need(":");
  const int64_t minute = reader.Digits(2, 2, 0, 59);
  int64_t second = 0;
  double fraction = 0;
  if (reader.Take(":")) {
    second = reader.Digits(2, 2, 0, 60);  // of a leap second
    if (reader.Take(".,")) fraction = reader.Fraction();
  }
  if (hour == 24 && (minute > 0 || second > 0 || fraction > 0)) reader.Refuse();
  if (bool afternoon = false; reader.TakeHalf(afternoon)) {
    if (hour < 1 || hour > 12) reader.Refuse();
    hour = hour % 12 + (afternoon ? 12 : 0);
  }
  return static_cast<double>(3600 * hour + 60 * minute + second - reader.Zone()) + fraction;
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
  DateReader reader(text);
  const Day day = ReadDay(reader, order);
  const double seconds = reader.More() ? ReadTime(reader) : 0;
  if (!reader.Whole() || !IsDay(day)) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(day.year)),
                                         std::chrono::month(static_cast<unsigned>(day.month)),
                                         std::chrono::day(static_cast<unsigned>(day.day))};
  return static_cast<double>(std::chrono::sys_days(date).time_since_epoch().count()) * 86400 + seconds;
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
