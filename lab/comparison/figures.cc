#include "lab/comparison/figures.h"

#include <functional>
#include <string>
#include <utility>

#include "lab/comparison/counting.h"

namespace heed::lab {
namespace {

constexpr int64_t kTokens = 5;
const char* const kSubscripts[] = {"₁", "₂", "₃", "₄", "₅"};

// One row of five nodes; returns the index of its first.
int AddRow(Diagram& diagram, double left, double height, const std::string& letter) {
  const int first = static_cast<int>(diagram.nodes.size());
  for (int64_t i = 0; i < kTokens; ++i) {
    diagram.nodes.push_back({left + static_cast<double>(i), height, letter + kSubscripts[i]});
  }
  return first;
}

// Arrows for all pairs of the pattern that `wanted` accepts, between two rows of nodes.
void AddArrows(Diagram& diagram, const BitMatrix& pattern, int from_row, int to_row,
               const std::function<bool(int64_t from, int64_t to)>& wanted) {
  for (int64_t to = 0; to < kTokens; ++to) {
    for (int64_t from = 0; from < kTokens; ++from) {
      if (!pattern.Get(to, from) || !wanted(from, to)) continue;
      diagram.arrows.push_back({from_row + static_cast<int>(from), to_row + static_cast<int>(to)});
    }
  }
}

std::string CommandOf(const ComparisonOptions& options) {
  std::string command = "heed compare --lengths ";
  for (std::size_t i = 0; i < options.lengths.size(); ++i) {
    if (i > 0) command += ',';
    command += std::to_string(options.lengths[i]);
  }
  command += " --width " + std::to_string(options.width) + " --kernel " + std::to_string(options.kernel);
  if (options.heads != 1) command += " --heads " + std::to_string(options.heads);
  if (options.seed != 0) command += " --seed " + std::to_string(options.seed);
  if (!options.measure_time) command += " --no-time";
  return command;
}

// One curve a layer. Points that a logarithmic axis cannot show (no path, or one of length 0) are left out.
template <class Value>
std::vector<Series> CurvePerLayer(const Comparison& comparison, const Value& value) {
  std::vector<Series> curves;
  for (const LayerKind kind : kAllLayers) {
    Series curve{.name = NameOf(kind), .x = {}, .y = {}, .low = {}, .high = {}};
    for (const ComparisonRow& row : comparison.rows) {
      const auto y = static_cast<double>(value(row));
      if (row.layer.kind != kind || y <= 0) continue;
      curve.x.push_back(static_cast<double>(row.length));
      curve.y.push_back(y);
    }
    if (!curve.x.empty()) curves.push_back(std::move(curve));
  }
  return curves;
}

// What a row shows of counts: found where it was counted, else the formula's.
const LayerNumbers& NumbersOf(const ComparisonRow& row) { return row.counted ? row.found : row.expected; }

Figure OverLength(const Comparison& comparison, const std::string& name, const std::string& title, const std::string& caption,
                  const std::string& y_label, std::vector<Series> curves) {
  LinePlot plot{.x_label = "Length n (tokens)", .y_label = y_label, .log_x = true, .log_y = true, .series = std::move(curves)};
  return {
      .name = name, .title = title, .caption = caption, .command = CommandOf(comparison.options), .content = std::move(plot)};
}

Figure OperationsFigure(const Comparison& comparison) {
  std::vector<Series> curves =
      CurvePerLayer(comparison, [](const ComparisonRow& row) { return NumbersOf(row).multiply_adds(); });
  Series scores{.name = "self-attention without projections", .x = {}, .y = {}, .low = {}, .high = {}};
  for (const ComparisonRow& row : comparison.rows) {
    if (row.layer.kind != LayerKind::kSelfAttention) continue;
    scores.x.push_back(static_cast<double>(row.length));
    scores.y.push_back(static_cast<double>(NumbersOf(row).mixing.multiply_adds));
  }
  curves.push_back(std::move(scores));
  return OverLength(comparison, "compare-operations", "Operations of one layer",
                    "Multiply-adds counted on the running layers at width " + std::to_string(comparison.options.width) +
                        ". Convolution and recurrence grow with n, the scores and sums of self-attention with n²; they reach "
                        "the recurrence where n equals the width and their own projections where n is twice the width.",
                    "Multiply-adds", std::move(curves));
}

}  // namespace

Figure ArchitecturesFigure() {
  const auto pattern = [](LayerKind kind) { return TraceRun({kind, 1, 3, 1}, kTokens); };
  const auto all = [](int64_t, int64_t) { return true; };
  Diagram diagram;
  const BitMatrix window = pattern(LayerKind::kCentredConvolution).reads;
  const int bottom = AddRow(diagram, 0, 0, "x"), middle = AddRow(diagram, 0, 1, "h"), top = AddRow(diagram, 0, 2, "y");
  AddArrows(diagram, window, bottom, middle, all);
  AddArrows(diagram, window, middle, top, all);

  const BitMatrix cell = pattern(LayerKind::kRecurrence).reads;
  const int inputs = AddRow(diagram, 6, 0, "x"), states = AddRow(diagram, 6, 1, "h");
  AddArrows(diagram, cell, inputs, states, [](int64_t from, int64_t to) { return from == to; });
  AddArrows(diagram, cell, states, states, [](int64_t from, int64_t to) { return from != to; });

  const int tokens = AddRow(diagram, 12, 0, "x"), outputs = AddRow(diagram, 12, 2, "y");
  AddArrows(diagram, pattern(LayerKind::kSelfAttention).reads, tokens, outputs, all);
  return {.name = "compare-architectures",
          .title = "Convolution, recurrence and self-attention over five tokens",
          .caption =
              "Left: two layers of a convolution with a window of three; the first and the last token meet in the middle "
              "position after two layers. Middle: a recurrence, four hops from first to last. Right: self-attention, "
              "one hop between any two.",
          .command = "heed compare",
          .content = std::move(diagram),
          .width = 960,
          .height = 300};
}

std::vector<Figure> ComparisonFigures(const Comparison& comparison) {
  std::vector<Figure> figures = {ArchitecturesFigure()};
  if (comparison.options.lengths.size() < 2) return figures;
  figures.push_back(OperationsFigure(comparison));
  figures.push_back(OverLength(
      comparison, "compare-steps", "Sequential steps of one layer",
      "States that must be computed one after the other: all of them in a recurrence, one in the others.", "Sequential steps",
      CurvePerLayer(comparison, [](const ComparisonRow& row) { return NumbersOf(row).sequential_steps; })));
  figures.push_back(OverLength(
      comparison, "compare-paths", "Path from the first to the last token",
      "Hops between positions, found by reachability on the running layers, stacking layers of convolution (window of " +
          std::to_string(comparison.options.kernel) +
          ") as needed. A short path is not sufficient: it tells how far "
          "information must travel, not how much of it arrives.",
      "Hops", CurvePerLayer(comparison, [](const ComparisonRow& row) { return NumbersOf(row).path_length; })));
  if (comparison.options.measure_time) {
    figures.push_back(OverLength(comparison, "compare-time", "Time of one forward pass",
                                 "Median time of the layer in float32, batch of one, without gradients.", "Seconds",
                                 CurvePerLayer(comparison, [](const ComparisonRow& row) { return row.seconds; })));
  }
  return figures;
}

}  // namespace heed::lab
