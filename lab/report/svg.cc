#include "lab/report/svg.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>

#include "lab/report/printable.h"

namespace heed::lab {

std::string OneLine(std::string_view text) {
  std::string line(text);
  std::ranges::replace_if(
      line, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  return Printable(line);
}

std::string EscapeMarkup(std::string_view text) {
  std::string escaped;
  for (const char c : OneLine(text)) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped.push_back(c);
    }
  }
  return escaped;
}

std::string Pixels(double value) {
  char buffer[64];
  std::snprintf(buffer, sizeof(buffer), "%.2f", value);
  std::string text = buffer;
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
  for (double k = std::ceil(low / step - slack); k <= std::floor(high / step + slack); ++k) {
    char buffer[32];
    std::snprintf(buffer, sizeof(buffer), "%.6g", k * step);
    ticks.values.push_back(k * step);
    ticks.labels.push_back(k == 0 ? "0" : buffer);
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
  return "<text x=\"" + Pixels(x) + "\" y=\"" + Pixels(y + kMiddleOfCapitals) + "\" text-anchor=\"" + name + "\">" +
         EscapeMarkup(text) + "</text>\n";
}

std::string SvgTextUpwards(double x, double y, std::string_view text) {
  return "<g transform=\"translate(" + Pixels(x) + " " + Pixels(y) + ") rotate(-90)\">" + SvgText(0, 0, Anchor::kMiddle, text) +
         "</g>\n";
}

std::string SvgDocument(int width, int height, std::string_view title, std::string_view body) {
  const std::string w = std::to_string(width), h = std::to_string(height);
  std::string svg = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n";
  svg += "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + w + "\" height=\"" + h + "\" viewBox=\"0 0 " + w + " " + h +
         "\">\n";
  svg += "<title>" + EscapeMarkup(title) + "</title>\n";
  svg += std::string("<rect width=\"") + w + "\" height=\"" + h + "\" fill=\"" + kBackground + "\"/>\n";
  svg += "<g font-family=\"sans-serif\" font-size=\"" + std::to_string(kFontSize) + "\" fill=\"" + kInk + "\">\n";
  svg += body;
  svg += "</g>\n</svg>\n";
  return svg;
}

}  // namespace heed::lab
