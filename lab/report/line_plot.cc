#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <set>
#include <vector>

#include "lab/report/svg.h"

namespace heed::lab {
namespace {

// Okabe and Ito's colours, which readers with any colour vision tell apart (without their yellow, too pale for a line), and a
// dash of its own for each round of colours, so that more series than colours still differ, on grey paper too.
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#333333"};
constexpr int kDashes = 4;
constexpr std::size_t kFewPoints = 24;  // series up to this long show their points
constexpr std::size_t kMostNames = 16;  // in a legend: of more series, one in so many is named

std::string Style(std::size_t index) {
  const std::size_t colour = index % std::size(kColours);
  const std::size_t dash = (index / std::size(kColours) + colour) % kDashes + 1;
  return std::string("lc rgb '") + kColours[colour] + "' dt " + std::to_string(dash) + " lw 2";
}

bool Drawable(double value, bool logarithmic) { return std::isfinite(value) && (!logarithmic || value > 0); }

bool AnyDrawable(const LinePlot& plot) {
  for (const Series& series : plot.series) {
    for (std::size_t i = 0; i < series.x.size(); ++i) {
      if (Drawable(series.x[i], plot.log_x) && Drawable(series.y[i], plot.log_y)) return true;
    }
  }
  return false;
}

// What an axis cannot show is missing: gnuplot would let zeros shorten a logarithmic axis.
std::string Value(double value, bool logarithmic) { return Drawable(value, logarithmic) ? GnuplotNumber(value) : "NaN"; }

std::string DataBlocks(const LinePlot& plot) {
  std::string blocks;
  for (std::size_t s = 0; s < plot.series.size(); ++s) {
    const Series& series = plot.series[s];
    const std::vector<double>& low = series.low.empty() ? series.y : series.low;
    const std::vector<double>& high = series.high.empty() ? series.y : series.high;
    blocks += "$series" + std::to_string(s) + " << END\n";
    for (std::size_t i = 0; i < series.x.size(); ++i) {
      blocks += Value(series.x[i], plot.log_x);
      for (const double y : {series.y[i], low[i], high[i]}) blocks += " " + Value(y, plot.log_y);
      blocks += '\n';
    }
    if (series.x.empty()) blocks += "NaN NaN NaN NaN\n";  // gnuplot refuses an empty block
    blocks += "END\n";
  }
  return blocks;
}

// With few places on a logarithmic axis (lengths 16, 32, 64, ..) those places are its ticks.
std::string AxisX(const LinePlot& plot) {
  std::string script = GnuplotLabel("x", plot.x_label) + "set autoscale xfix\n";
  if (!plot.log_x) return script;
  script += "set logscale x\n";
  std::set<double> places;
  for (const Series& series : plot.series) {
    std::copy_if(series.x.begin(), series.x.end(), std::inserter(places, places.end()),
                 [](double x) { return Drawable(x, true); });
  }
  constexpr std::size_t kMostTicks = 12;
  if (places.size() > kMostTicks || places.size() < 2) return script;
  std::string ticks;
  for (const double place : places) ticks += (ticks.empty() ? "" : ",") + GnuplotNumber(place);
  // The range by name: taken from the data, its rounded logarithm can leave out the last tick.
  return script + "set xtics (" + ticks + ")\nunset mxtics\nset xrange [" + GnuplotNumber(*places.begin()) + ":" +
         GnuplotNumber(*places.rbegin()) + "]\n";
}

// Ticks of a logarithmic axis from low to high: where powers of ten alone are too few to be read, 2 and 5 are added, and
// within one decade round numbers at equal distances.
std::string LogarithmicTicks(double low, double high) {
  std::string ticks;
  const auto add = [&ticks](double tick) { ticks += (ticks.empty() ? "" : ",") + GnuplotNumber(tick); };
  if (high / low < 10) {
    for (const double tick : RoundTicks(low, high, 6).values) add(tick);
    return ticks;
  }
  for (int power = static_cast<int>(std::floor(std::log10(low))); power <= std::log10(high); ++power) {
    for (const int digit : {1, 2, 5}) add(digit * std::pow(10.0, power));
  }
  return ticks;
}

// What the vertical axis shows.
struct Range {
  double low = INFINITY, high = -INFINITY;
  bool logarithmic = false;

  // 0 at its low end, 1 at its high one.
  double Share(double value) const {
    if (logarithmic) return std::log(value / low) / std::log(high / low);
    return (value - low) / (high - low);
  }
};

// Of all that can be drawn, with room: up to whole ticks, over less than two decades a little.
Range RangeOf(const LinePlot& plot) {
  Range range{.logarithmic = plot.log_y};
  for (const Series& series : plot.series) {
    for (const auto* values : {&series.y, &series.low, &series.high}) {
      for (const double y : *values) {
        if (Drawable(y, plot.log_y)) range.low = std::min(range.low, y), range.high = std::max(range.high, y);
      }
    }
  }
  if (range.logarithmic && range.high / range.low > 100) {
    range.low = std::pow(10, std::floor(std::log10(range.low)));
    range.high = std::pow(10, std::ceil(std::log10(range.high)));
  } else if (range.logarithmic) {
    const double room = std::max(std::pow(range.high / range.low, 0.05), 1.02);
    range.low /= room, range.high *= room;
  } else {
    if (range.low == range.high)
      range.low -= 0.05 * std::abs(range.low) + 0.05, range.high += 0.05 * std::abs(range.high) + 0.05;
    const std::vector<double> ticks = RoundTicks(range.low, range.high, 5).values;
    const double step = ticks.size() > 1 ? ticks[1] - ticks[0] : range.high - range.low;
    range.low = step * std::floor(range.low / step), range.high = step * std::ceil(range.high / step);
  }
  return range;
}

std::string AxisY(const LinePlot& plot, const Range& range) {
  std::string script = GnuplotLabel("y", plot.y_label);
  if (plot.log_y) script += "set logscale y\n";
  if (plot.log_y && range.high / range.low < 200) script += "set ytics (" + LogarithmicTicks(range.low, range.high) + ")\n";
  return script + "set yrange [" + GnuplotNumber(range.low) + ":" + GnuplotNumber(range.high) + "]\n";
}

// A name where its curve ends, with a thin line to it where others push it away.
struct EndLabel {
  std::size_t series;
  double x, y;  // the last point that is drawn
};

std::vector<EndLabel> EndLabels(const LinePlot& plot) {
  std::vector<EndLabel> labels;
  for (std::size_t s = 0; s < plot.series.size(); ++s) {
    const Series& series = plot.series[s];
    for (std::size_t i = series.x.size(); i-- > 0 && !series.name.empty();) {
      if (!Drawable(series.x[i], plot.log_x) || !Drawable(series.y[i], plot.log_y)) continue;
      labels.push_back({s, series.x[i], series.y[i]});
      break;
    }
  }
  return labels;
}

// Pixels that gnuplot takes above and below a plot, between a plot and its names, and of a line of text.
constexpr double kMargins = 70, kLead = 18, kLine = 1.25 * kFontSize;

// At the right of the plot; nothing where the names would not fit below each other.
std::string NamesAtEnds(const Figure& figure, const LinePlot& plot, const Range& range) {
  const std::vector<EndLabel> labels = EndLabels(plot);
  const double gap = kLine / (figure.height - kMargins);  // as a share of the plot's height
  double widest = 0;
  std::vector<double> wanted;
  for (const EndLabel& label : labels) {
    widest = std::max(widest, TextWidth(plot.series[label.series].name));
    wanted.push_back(range.Share(label.y));
  }
  const double right = figure.width - widest - kLead - 6;
  if (labels.empty() || gap * static_cast<double>(labels.size()) > 1 || right < 0.45 * figure.width) return {};
  const std::vector<double> places = SpreadApart(wanted, gap, 0, 1);
  const auto at = [&](double x, std::size_t i) {
    return "screen " + GnuplotNumber(x / figure.width) + ", graph " + GnuplotNumber(places[i]);
  };
  std::string script = "unset key\nset rmargin at screen " + GnuplotNumber(right / figure.width) + "\n";
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const EndLabel& label = labels[i];
    const char* colour = kColours[label.series % std::size(kColours)];
    script += "set arrow from first " + GnuplotNumber(label.x) + ", first " + GnuplotNumber(label.y) + " to " +
              at(right + kLead - 4, i) + " nohead lw 0.7 lc rgb '" + colour + "'\n";
    script += "set label " + GnuplotString(plot.series[label.series].name) + " at " + at(right + kLead, i) +
              " left textcolor rgb '" + kInk + "'\n";
  }
  return script;
}

// Where there are too many names: above the plot while they fit in two lines, else in a column at its right.
std::string Legend(const Figure& figure, const LinePlot& plot) {
  constexpr double kSample = 60;  // pixels of line and space beside a name
  double total = 0, widest = 0;
  int longest = 0;
  for (const Series& series : plot.series) {
    total += TextWidth(series.name) + kSample;
    widest = std::max(widest, TextWidth(series.name));
    longest = std::max(longest, CountCharacters(series.name));
  }
  if (longest == 0) return "unset key\n";
  const std::string place = total < 1.6 * figure.width ? "above horizontal" : "outside right top vertical";
  // gnuplot gives every character 0.7 of the font size; what names need less or more, and one for space, is set in characters.
  constexpr double kGiven = 0.7 * kFontSize;
  const double correction = widest / kGiven - longest + 1;
  return "set key " + place + " Left reverse samplen 3 width " + GnuplotNumber(correction) + " textcolor rgb '" + kInk + "'\n";
}

}  // namespace

std::string Draw(const Figure& figure, const LinePlot& plot) {
  std::string script = GnuplotHeader(figure.width, figure.height) + DataBlocks(plot) + AxisX(plot);
  if (!AnyDrawable(plot)) {
    script += GnuplotLabel("y", plot.y_label) + Legend(figure, plot) +
              "unset logscale\nset xrange [0:1]\nset yrange [0:1]\nunset tics\n"
              "set label 'no finite values' at graph 0.5,0.5 center\nplot NaN notitle\n";
    return RunGnuplot(script, figure.title);
  }
  const Range range = RangeOf(plot);
  const std::string names = NamesAtEnds(figure, plot, range);
  script += AxisY(plot, range) + (names.empty() ? Legend(figure, plot) : names);
  const std::size_t stride = (plot.series.size() + kMostNames - 1) / kMostNames;
  std::string bands, lines;
  for (std::size_t s = 0; s < plot.series.size(); ++s) {
    const Series& series = plot.series[s];
    const std::string data = "$series" + std::to_string(s);
    if (!series.low.empty()) {
      bands += data + " using 1:3:4 with filledcurves fc rgb '" + kColours[s % std::size(kColours)] +
               "' fs transparent solid 0.18 noborder notitle, ";
    }
    const char* kind = series.x.size() <= kFewPoints ? " with linespoints pt 7 ps 0.5 " : " with lines ";
    lines += (s == 0 ? "" : ", ") + data + " using 1:2" + kind + Style(s) +
             (names.empty() && s % stride == 0 ? " title " + GnuplotString(series.name) : " notitle");
  }
  return RunGnuplot(script + "plot " + bands + lines + "\n", figure.title);
}

}  // namespace heed::lab
