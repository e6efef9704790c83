#include "lab/series/date.h"

#include <chrono>
#include <cstdint>

namespace heed::lab {
namespace {

// Reads the parts of a date one by one; what does not stand there makes all that follows nothing.
class DateReader {
 public:
  explicit DateReader(std::string_view text) : rest_(text) {}

  // So many digits, as a number from low to high.
  int64_t Digits(std::size_t count, int64_t low, int64_t high) {
    int64_t number = 0;
    const std::string_view digits = rest_.substr(0, count);
    for (const char c : digits) ok_ = ok_ && c >= '0' && c <= '9', number = 10 * number + (c - '0');
    ok_ = ok_ && digits.size() == count && number >= low && number <= high;
    rest_.remove_prefix(digits.size());
    return number;
  }
  bool Take(std::string_view any) {
    const bool found = !rest_.empty() && any.find(rest_.front()) != std::string_view::npos;
    if (found) rest_.remove_prefix(1);
    return found;
  }
  void Need(std::string_view any) { ok_ = Take(any) && ok_; }
  // Behind the point of a second.
  double Fraction() {
    double value = 0, place = 1;
    ok_ = ok_ && !rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9';
    while (!rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9') {
      value += (rest_.front() - '0') * (place /= 10);
      rest_.remove_prefix(1);
    }
    return value;
  }
  // Hours and minutes east of UTC, in seconds; none is UTC.
  int64_t Zone() {
    if (rest_.empty() || Take("Z")) return 0;
    const bool west = rest_.front() == '-';
    Need("+-");
    const int64_t hours = Digits(2, 0, 23);
    if (rest_.empty()) return (west ? -3600 : 3600) * hours;
    Take(":");
    return (west ? -60 : 60) * (60 * hours + Digits(2, 0, 59));
  }
  bool Whole() const { return ok_ && rest_.empty(); }
  bool More() const { return !rest_.empty(); }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace

std::optional<double> SecondsOfDate(std::string_view text) {
  DateReader reader(text);
  const int64_t year = reader.Digits(4, 0, 9999);
  reader.Need("-");
  const int64_t month = reader.Digits(2, 1, 12);
  reader.Need("-");
  const int64_t day = reader.Digits(2, 1, 31);
  double seconds = 0;
  if (reader.More()) {
    reader.Need("T ");
    const int64_t hour = reader.Digits(2, 0, 24);
    reader.Need(":");
    const int64_t minute = reader.Digits(2, 0, 59);
    int64_t second = 0;
    double fraction = 0;
    if (reader.Take(":")) {
      second = reader.Digits(2, 0, 60);  // of a leap second
      if (reader.Take(".,")) fraction = reader.Fraction();
    }
    if (hour == 24 && (minute > 0 || second > 0 || fraction > 0)) return std::nullopt;
    seconds = static_cast<double>(3600 * hour + 60 * minute + second - reader.Zone()) + fraction;
  }
  const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(year)),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!reader.Whole() || !date.ok()) return std::nullopt;
  return static_cast<double>(std::chrono::sys_days(date).time_since_epoch().count()) * 86400 + seconds;
}

}  // namespace heed::lab
