#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>

#include <fmt/core.h>

#include "lab/report/svg.h"

namespace heed::lab {
namespace {

// Okabe and Ito's, light enough for a surface.
constexpr const char* kBarColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"};
constexpr char kGrey[] = "#8a939c";

// As gnuplot's variable colours take it.
std::string ColourOf(int group) {
  return std::string("0x") + ((group < 0 ? kGrey : kBarColours[static_cast<std::size_t>(group) % std::size(kBarColours)]) + 1);
}

double WidestName(const BarChart& chart) {  // pixels
  double widest = 0;
  for (const BarChart::Bar& bar : chart.bars) widest = std::max(widest, TextWidth(bar.name));
  return widest;
}

// Upright where every name fits below its own bar, else lying, with the names at their left.
bool Upright(const Figure& figure, const BarChart& chart) {
  const double place = 0.85 * figure.width / static_cast<double>(std::max<std::size_t>(chart.bars.size(), 1));
  return WidestName(chart) + 8 < place;
}

// One line a bar: place, value, low, high, text, where the text stands (beyond the spread), colour.
std::string DataBlock(const BarChart& chart) {
  std::string block = "$bars << END\n";
  for (std::size_t i = 0; i < chart.bars.size(); ++i) {
    const auto& [name, value, low, high, group] = chart.bars[i];
    const bool known = std::isfinite(value);
    const double end = !known ? 0 : value < 0 && !chart.dots ? std::min(low, value) : std::max(high, value);
    block += std::to_string(i) + " " + GnuplotNumber(value) + " " + GnuplotNumber(low) + " " + GnuplotNumber(high) + " \"" +
             (known ? fmt::format("{:.4g}", value) : "n/a") + "\" " + GnuplotNumber(end) + " " + ColourOf(group) + "\n";
  }
  return block + "END\n";
}

std::string NameTicks(const BarChart& chart, const char* axis) {
  std::string script = std::string("set ") + axis + "tics scale 0 (";
  for (std::size_t i = 0; i < chart.bars.size(); ++i) {
    script += (i == 0 ? "" : ", ") + GnuplotTicLabel(chart.bars[i].name) + " " + std::to_string(i);
  }
  return script + ")\nset grid no" + axis + "tics\n";
}

// Of bars from zero, as their length is what is compared; with room for the numbers at the ends.
std::string ValueRange(const BarChart& chart, const char* axis, double room) {
  double low = chart.dots ? INFINITY : 0, high = chart.dots ? -INFINITY : 0;
  for (const BarChart::Bar& bar : chart.bars) {
    for (const double value : {bar.value, bar.low, bar.high}) {
      if (std::isfinite(value)) low = std::min(low, value), high = std::max(high, value);
    }
  }
  if (!std::isfinite(low)) low = high = 0;
  if (low == high) high = low + 1;
  const double margin = room * (high - low);
  const double begin = chart.dots || low < 0 ? low - margin : 0, end = chart.dots || high > 0 ? high + margin : 0;
  return std::string("set ") + axis + "range [" + GnuplotNumber(begin) + ":" + GnuplotNumber(end) + "]\n";
}

}  // namespace

std::string Draw(const Figure& figure, const BarChart& chart) {
  std::string script = GnuplotHeader(figure.width, figure.height) + DataBlock(chart) + "unset key\n";
  const bool upright = !chart.dots && Upright(figure, chart);
  const std::string bar = " lc rgb variable fs solid 0.85 noborder, ";
  // Vectors with flat heads at both ends: error bars would also draw a point.
  const std::string whisker = std::string(" with vectors heads size screen 0.008,90 lc rgb '") + kInk + "' lw 1.5, ";
  const std::string label_colour = std::string(" textcolor rgb '") + kInk + "'";
  const std::string names = std::to_string(chart.bars.size()) + "-0.5";
  if (upright) {
    script += NameTicks(chart, "x") + ValueRange(chart, "y", 0.1) + "set xrange [-0.5:" + names + "]\n";
    script += GnuplotLabel("y", chart.y_label) + "set boxwidth 0.6\nplot $bars using 1:2:7 with boxes" + bar;
    script += "$bars using 1:3:(0):($4-$3)" + whisker;
    script += "$bars using 1:($6 < 0 ? NaN : $6):5 with labels offset 0,0.7" + label_colour + ", ";
    script += "$bars using 1:($6 < 0 ? $6 : NaN):5 with labels offset 0,-0.7" + label_colour + "\n";
  } else {
    script += NameTicks(chart, "y") + ValueRange(chart, "x", 0.15) + "set yrange [" + names + ":-0.5]\n";
    const double margin = std::min((WidestName(chart) + 24) / figure.width, 0.6);
    script += GnuplotLabel("x", chart.y_label) + "set lmargin at screen " + GnuplotNumber(margin) + "\n";
    script += chart.dots ? "plot $bars using 2:1:7 with points pt 7 ps 1.2 lc rgb variable, "
                         : "plot $bars using (0):1:(0):2:($1-0.3):($1+0.3):7 with boxxyerror" + bar;
    script += "$bars using 3:1:($4-$3):(0)" + whisker;
    const std::string sign = chart.dots ? "0" : "$6";  // on which side of its end a number stands
    script += "$bars using (" + sign + " < 0 ? NaN : $6):1:5 with labels left offset " + (chart.dots ? "1.2" : "0.7") + ",0" +
              label_colour + ", ";
    script += "$bars using (" + sign + " < 0 ? $6 : NaN):1:5 with labels right offset -0.7,0" + label_colour + "\n";
  }
  return RunGnuplot(script, figure.title);
}

}  // namespace heed::lab
