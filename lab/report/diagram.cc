#include <algorithm>
#include <cmath>
#include <cstddef>

#include <fmt/core.h>

#include "lab/report/svg.h"

namespace heed::lab {
namespace {

constexpr double kMargin = 16;      // pixels around the drawing
constexpr double kNodeHeight = 30;  // pixels
constexpr double kArcLift = 0.6;    // height of an arc's control point over its width
constexpr char kNodeFill[] = "#dcebf7", kNodeStroke[] = "#0072b2", kArrowColour[] = "#4d6b80";

struct Point {
  double x, y;
};

// A node is a rounded box around its label, one size for all.
double NodeWidth(const Diagram& diagram) {
  double widest = 0;
  for (const Diagram::Node& node : diagram.nodes) widest = std::max(widest, TextWidth(node.label));
  return std::max(kNodeHeight, widest + 14);
}

// The coordinates of the diagram (y upwards) spread over the picture (y downwards); what has no extent is centred.
std::vector<Point> Places(const Figure& figure, const Diagram& diagram, double node_width) {
  double left = INFINITY, right = -INFINITY, bottom = INFINITY, top = -INFINITY;
  for (const Diagram::Node& node : diagram.nodes) {
    left = std::min(left, node.x), right = std::max(right, node.x);
    bottom = std::min(bottom, node.y), top = std::max(top, node.y);
  }
  const double width = figure.width - node_width - 2 * kMargin, height = figure.height - kNodeHeight - 2 * kMargin;
  std::vector<Point> places;
  for (const Diagram::Node& node : diagram.nodes) {
    const double across = right > left ? (node.x - left) / (right - left) : 0.5;
    const double up = top > bottom ? (node.y - bottom) / (top - bottom) : 0.5;
    places.push_back({kMargin + node_width / 2 + across * width, kMargin + kNodeHeight / 2 + (1 - up) * height});
  }
  return places;
}

// Where the line from the middle of a node towards `other` leaves the node's box, `gap` pixels outside.
Point Edge(const Point& middle, const Point& other, double node_width, double gap) {
  const double dx = other.x - middle.x, dy = other.y - middle.y, length = std::hypot(dx, dy);
  if (length == 0) return middle;
  const double to_side = dx != 0 ? node_width / 2 / std::fabs(dx) : INFINITY;
  const double to_end = dy != 0 ? kNodeHeight / 2 / std::fabs(dy) : INFINITY;
  const double part = std::min(std::min(to_side, to_end) + gap / length, 0.5);
  return {middle.x + part * dx, middle.y + part * dy};
}

// The path of an arrow between two nodes: a line, but an arc above the nodes between two of one row that are not neighbours.
std::string ArrowPath(const Point& from, const Point& to, double node_width, bool arc) {
  const auto at = [](double x, double y) { return Pixels(x) + " " + Pixels(y); };
  if (arc) {
    const double y = from.y - kNodeHeight / 2, lift = kArcLift * std::fabs(to.x - from.x);
    return "M" + at(from.x, y) + "Q" + at((from.x + to.x) / 2, y - lift) + " " + at(to.x, y - 2);
  }
  const Point start = Edge(from, to, node_width, 0), end = Edge(to, from, node_width, 2);
  return "M" + at(start.x, start.y) + "L" + at(end.x, end.y);
}

}  // namespace

std::string Draw(const Figure& figure, const Diagram& diagram) {
  const double node_width = NodeWidth(diagram);
  const std::vector<Point> places = Places(figure, diagram, node_width);
  std::string body = fmt::format(
      "<marker id=\"head\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">"
      "<path d=\"M0 0.5L8 4L0 7.5z\" fill=\"{0}\"/></marker>\n"
      "<g fill=\"none\" stroke=\"{0}\" stroke-width=\"1.3\" marker-end=\"url(#head)\">\n",
      kArrowColour);
  for (const Diagram::Arrow& arrow : diagram.arrows) {
    const Diagram::Node& from = diagram.nodes[arrow.from];
    const Diagram::Node& to = diagram.nodes[arrow.to];
    const bool arc = from.y == to.y && std::fabs(from.x - to.x) > 1;
    body +=
        "<path marker-end=\"url(#head)\" d=\"" + ArrowPath(places[arrow.from], places[arrow.to], node_width, arc) + "\"/>\n";
  }
  body += "</g>\n";
  for (std::size_t i = 0; i < places.size(); ++i) {
    body += fmt::format(
        "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"8\" fill=\"{}\" stroke=\"{}\" stroke-width=\"1.3\"/>\n",
        Pixels(places[i].x - node_width / 2), Pixels(places[i].y - kNodeHeight / 2), Pixels(node_width), Pixels(kNodeHeight),
        kNodeFill, kNodeStroke);
    body += SvgText(places[i].x, places[i].y, Anchor::kMiddle, diagram.nodes[i].label);
  }
  return SvgDocument(figure.width, figure.height, figure.title, body);
}

}  // namespace heed::lab
