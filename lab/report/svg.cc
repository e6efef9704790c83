#include "lab/report/svg.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>

#include <fmt/core.h>
#include <boost/algorithm/string/replace.hpp>

#include "lab/report/printable.h"

namespace heed::lab {
namespace {

// Neighbours that stand together.
struct Group {
  double sum = 0;  // of the places wanted, each less the gaps before it
  int count = 0;
  double Mean() const { return sum / count; }
};

}  // namespace

std::string OneLine(std::string_view text) {
  std::string line(text);
  std::ranges::replace_if(
      line, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  return Printable(line);
}

std::string EscapeMarkup(std::string_view text) {
  std::string escaped = OneLine(text);
  for (const auto& [plain, entity] : {std::pair("&", "&amp;"), {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}})
    boost::replace_all(escaped, plain, entity);
  return escaped;
}

std::string Pixels(double value) {
  std::string text = fmt::format("{:.2f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

int CountCharacters(std::string_view utf8) {
  // Every byte but the continuation bytes 10xxxxxx starts a character.
  return static_cast<int>(std::count_if(utf8.begin(), utf8.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

double TextWidth(std::string_view utf8) {
  // Parts of the font size, a tenth above Arial's: DejaVu Sans, the widest of the usual fonts, is not wider.
  constexpr std::string_view kNarrow = " !'()*,-./:;[]fijlrt|{}", kWide = "mwMW%@&";
  double width = 0;
  for (const char c : utf8) {
    if ((c & 0xc0) == 0x80) continue;  // the rest of a character that has been counted
    const bool capital = (c >= 'A' && c <= 'Z') || (c & 0x80) != 0;
    const bool narrow = kNarrow.find(c) != std::string_view::npos, wide = kWide.find(c) != std::string_view::npos;
    width += narrow ? 0.4 : wide ? 1.05 : capital ? 0.8 : 0.63;
  }
  return width * kFontSize;
}

Ticks RoundTicks(double low, double high, int count) {
  const double ideal = (high - low) / std::max(count, 1);
  const double power = std::pow(10.0, std::floor(std::log10(ideal)));
  const double mantissa = ideal / power;  // in [1, 10)
  const double step = power * (mantissa <= 1 ? 1 : mantissa <= 2 ? 2 : mantissa <= 5 ? 5 : 10);
  Ticks ticks;
  const double slack = 1e-9;  // of a step: an end that is a tick up to rounding is one
  const double first = std::ceil(low / step - slack), last = std::floor(high / step + slack);
  for (int i = 0; first + i <= last; ++i) {
    const double k = first + i;
    ticks.values.push_back(k * step);
    ticks.labels.push_back(k == 0 ? "0" : fmt::format("{:.6g}", k * step));
  }
  return ticks;
}

Ticks IndexTicks(int64_t size, int count) {
  if (size <= 1) return {{0.0}, {"0"}};
  const auto last = static_cast<double>(size - 1);
  // Ticks closer than one index apart would show fractions of an index.
  return RoundTicks(0.0, last, static_cast<int>(std::min<double>(count, last)));
}

std::string SvgText(double x, double y, Anchor anchor, std::string_view text) {
  const char* name = anchor == Anchor::kStart ? "start" : anchor == Anchor::kMiddle ? "middle" : "end";
  constexpr double kMiddleOfCapitals = 0.35 * kFontSize;  // above the baseline
  return fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"{}\">{}</text>\n", Pixels(x), Pixels(y + kMiddleOfCapitals), name,
                     EscapeMarkup(text));
}

std::string SvgTextUpwards(double x, double y, std::string_view text) {
  return fmt::format("<g transform=\"translate({} {}) rotate(-90)\">{}</g>\n", Pixels(x), Pixels(y),
                     SvgText(0, 0, Anchor::kMiddle, text));
}

std::string SvgDocument(int width, int height, std::string_view title, std::string_view body) {
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n"
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\">\n"
      "<title>{2}</title>\n<rect width=\"{0}\" height=\"{1}\" fill=\"{3}\"/>\n"
      "<g font-family=\"sans-serif\" font-size=\"{4}\" fill=\"{5}\">\n{6}</g>\n</svg>\n",
      width, height, EscapeMarkup(title), kBackground, kFontSize, kInk, body);
}

// Without the gaps before it each place must not be below the one before: an isotonic regression, by pooling what violates it.
std::vector<double> SpreadApart(const std::vector<double>& wanted, double gap, double low, double high) {
  std::vector<std::size_t> order(wanted.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return wanted[a] < wanted[b]; });
  std::vector<Group> groups;
  for (std::size_t i = 0; i < order.size(); ++i) {
    groups.push_back({wanted[order[i]] - gap * static_cast<double>(i), 1});
    while (groups.size() > 1 && groups[groups.size() - 2].Mean() >= groups.back().Mean()) {
      const Group last = groups.back();
      groups.pop_back();
      groups.back().sum += last.sum;
      groups.back().count += last.count;
    }
  }
  std::vector<double> places(wanted.size());
  const double most = high - gap * static_cast<double>(std::max<std::size_t>(wanted.size(), 1) - 1);
  std::size_t i = 0;
  for (const Group& group : groups) {
    for (int k = 0; k < group.count; ++k, ++i) {
      places[order[i]] = std::clamp(group.Mean(), low, most) + gap * static_cast<double>(i);
    }
  }
  return places;
}

}  // namespace heed::lab
