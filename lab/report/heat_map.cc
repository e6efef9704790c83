#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <map>

#include <fmt/core.h>

#include "lab/report/svg.h"

namespace heed::lab {
namespace {

// Single-hue blues, light to dark: ColorBrewer 2.0 "Blues" with nine classes (Harrower and Brewer 2003).
constexpr std::array<std::array<int, 3>, 9> kBlues = {{{247, 251, 255},
                                                       {222, 235, 247},
                                                       {198, 219, 239},
                                                       {158, 202, 225},
                                                       {107, 174, 214},
                                                       {66, 146, 198},
                                                       {33, 113, 181},
                                                       {8, 81, 156},
                                                       {8, 48, 107}}};
constexpr int kLevels = 256;
constexpr int kNotFinite = -1;                  // level of a cell without a colour
constexpr char kNotFiniteColour[] = "#e3b7a0";  // no blue comes near it

std::string Colour(int level) {
  if (level == kNotFinite) return kNotFiniteColour;
  const double place = static_cast<double>(level) / (kLevels - 1) * static_cast<double>(kBlues.size() - 1);
  const std::size_t class_below = std::min<std::size_t>(static_cast<std::size_t>(place), kBlues.size() - 2);
  const std::array<int, 3>&below = kBlues.at(class_below), &above = kBlues.at(class_below + 1);
  int mixed[3];
  for (std::size_t c = 0; c < 3; ++c)
    mixed[c] = static_cast<int>(std::lround(below[c] + (place - static_cast<double>(class_below)) * (above[c] - below[c])));
  return fmt::format("#{:02x}{:02x}{:02x}", mixed[0], mixed[1], mixed[2]);
}

// At most one cell a pixel: larger matrices are shown by the means of blocks of cells (their files keep every value).
HeatMap Reduced(const HeatMap& map, int64_t most_rows, int64_t most_columns) {
  const int64_t down = (map.rows + most_rows - 1) / most_rows, across = (map.columns + most_columns - 1) / most_columns;
  if (down == 1 && across == 1) return map;
  HeatMap reduced{map.x_label, map.y_label, (map.rows + down - 1) / down, (map.columns + across - 1) / across, {}};
  for (int64_t row = 0; row < map.rows; row += down) {
    for (int64_t column = 0; column < map.columns; column += across) {
      const int64_t row_end = std::min(row + down, map.rows), column_end = std::min(column + across, map.columns);
      double sum = 0;
      for (int64_t i = row; i < row_end; ++i) {
        for (int64_t j = column; j < column_end; ++j) sum += map.values[static_cast<std::size_t>(i * map.columns + j)];
      }
      reduced.values.push_back(sum / static_cast<double>((row_end - row) * (column_end - column)));
    }
  }
  return reduced;
}

struct Extent {
  double low, high;
};

Extent FiniteRange(const std::vector<double>& values) {
  Extent range{INFINITY, -INFINITY};
  for (const double value : values) {
    if (std::isfinite(value)) range = {std::min(range.low, value), std::max(range.high, value)};
  }
  if (range.low > range.high) return {0, 1};
  const double half = range.low == range.high ? std::max(0.5, std::fabs(range.low) * 1e-3) : 0;
  return {range.low - half, range.high + half};
}

// Cells of one colour are one path in units of cells; equal neighbours in a row are one rectangle.
std::string Cells(const HeatMap& map, const Extent& range) {
  const auto level = [&](int64_t row, int64_t column) {
    const double value = map.values[static_cast<std::size_t>(row * map.columns + column)];
    if (!std::isfinite(value)) return kNotFinite;
    return static_cast<int>(std::lround((value - range.low) / (range.high - range.low) * (kLevels - 1)));
  };
  std::map<int, std::string> paths;
  for (int64_t row = 0; row < map.rows; ++row) {
    for (int64_t column = 0; column < map.columns;) {
      const int here = level(row, column);
      int64_t end = column + 1;
      while (end < map.columns && level(row, end) == here) ++end;
      paths[here] += fmt::format("M{0} {1}h{2}v1h-{2}z", column, row, end - column);
      column = end;
    }
  }
  std::string cells;
  for (const auto& [at, path] : paths) cells += "<path fill=\"" + Colour(at) + "\" d=\"" + path + "\"/>\n";
  return cells;
}

struct Box {
  double left, top, width, height;
};

std::string Frame(const Box& box) {
  return "<rect x=\"" + Pixels(box.left) + "\" y=\"" + Pixels(box.top) + "\" width=\"" + Pixels(box.width) + "\" height=\"" +
         Pixels(box.height) + "\" fill=\"none\" stroke=\"" + kInk + "\"/>\n";
}

std::string Line(double x1, double y1, double x2, double y2) {
  return "<path stroke=\"" + std::string(kInk) + "\" d=\"M" + Pixels(x1) + " " + Pixels(y1) + "L" + Pixels(x2) + " " +
         Pixels(y2) + "\"/>\n";
}

constexpr double kTick = 5, kGap = 4;  // pixels: a tick mark, and between it and its label

std::string ColourBar(const Box& box, const Extent& range, const Ticks& ticks) {
  std::string bar = "<linearGradient id=\"blues\" x1=\"0\" y1=\"1\" x2=\"0\" y2=\"0\">";
  for (int i = 0; i < 9; ++i) {
    bar += "<stop offset=\"" + Pixels(i * 12.5) + "%\" stop-color=\"" + Colour((kLevels - 1) * i / 8) + "\"/>";
  }
  bar += "</linearGradient>\n<rect x=\"" + Pixels(box.left) + "\" y=\"" + Pixels(box.top) + "\" width=\"" + Pixels(box.width) +
         "\" height=\"" + Pixels(box.height) + "\" fill=\"url(#blues)\"/>\n" + Frame(box);
  const double right = box.left + box.width;
  for (std::size_t i = 0; i < ticks.values.size(); ++i) {
    const double y = box.top + box.height * (range.high - ticks.values[i]) / (range.high - range.low);
    bar += Line(right, y, right + kTick, y) + SvgText(right + kTick + kGap, y, Anchor::kStart, ticks.labels[i]);
  }
  return bar;
}

double Widest(const Ticks& ticks) {
  double widest = 0;
  for (const std::string& label : ticks.labels) widest = std::max(widest, TextWidth(label));
  return widest;
}

std::string Axes(const HeatMap& map, const Box& box, const Ticks& across, const Ticks& down) {
  std::string axes = Frame(box);
  const double bottom = box.top + box.height, cell_width = box.width / static_cast<double>(map.columns);
  for (std::size_t i = 0; i < across.values.size(); ++i) {
    const double x = box.left + (across.values[i] + 0.5) * cell_width;
    axes += Line(x, bottom, x, bottom + kTick) + SvgText(x, bottom + kTick + kGap + 6, Anchor::kMiddle, across.labels[i]);
  }
  for (std::size_t i = 0; i < down.values.size(); ++i) {
    const double y = box.top + (down.values[i] + 0.5) * box.height / static_cast<double>(map.rows);
    axes += Line(box.left - kTick, y, box.left, y) + SvgText(box.left - kTick - kGap, y, Anchor::kEnd, down.labels[i]);
  }
  axes += SvgText(box.left + box.width / 2, bottom + 38, Anchor::kMiddle, map.x_label);
  axes += SvgTextUpwards(box.left - kTick - kGap - Widest(down) - 14, box.top + box.height / 2, map.y_label);
  return axes;
}

}  // namespace

std::string Draw(const Figure& figure, const HeatMap& map) {
  const Extent range = FiniteRange(map.values);
  const Ticks levels = RoundTicks(range.low, range.high, 5);
  const Ticks down = IndexTicks(map.rows, figure.height / 45);
  const double bar_room = 16 + 14 + kTick + kGap + Widest(levels) + 10;  // space, bar, tick, gap, label, space
  Box box{Widest(down) + kTick + kGap + 28, 14, 0, 0};
  box.width = figure.width - box.left - bar_room;
  box.height = figure.height - box.top - 54;
  const Ticks across = IndexTicks(map.columns, static_cast<int>(box.width / 45));

  const HeatMap shown = Reduced(map, static_cast<int64_t>(box.height), static_cast<int64_t>(box.width));
  const double x_scale = box.width / static_cast<double>(shown.columns), y_scale = box.height / static_cast<double>(shown.rows);
  std::string body =
      fmt::format("<g transform=\"translate({:.2f} {:.2f}) scale({:.6f} {:.6f})\" shape-rendering=\"crispEdges\">\n{}</g>\n",
                  box.left, box.top, x_scale, y_scale, Cells(shown, range));
  body += Axes(map, box, across, down);
  body += ColourBar({box.left + box.width + 16, box.top, 14, box.height}, range, levels);
  return SvgDocument(figure.width, figure.height, figure.title, body);
}

}  // namespace heed::lab
