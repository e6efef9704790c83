#include "book/comparison/output.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "book/comparison/counting.h"
#include "comparison_prose.h"
#include "lab/report/prose.h"

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
void AddArrows(Diagram& diagram, const Pattern& pattern, int from_row, int to_row,
               const std::function<bool(int64_t from, int64_t to)>& wanted) {
  for (int64_t to = 0; to < kTokens; ++to) {
    for (int64_t from = 0; from < kTokens; ++from) {
      if (!pattern[from][to] || !wanted(from, to)) continue;
      diagram.arrows.push_back({from_row + static_cast<int>(from), to_row + static_cast<int>(to)});
    }
  }
}

Series Named(const std::string& name) { return {.name = name, .x = {}, .y = {}, .low = {}, .high = {}}; }

// One curve a layer over the length. What a logarithmic axis cannot show (no path, or one of length 0) interrupts it.
template <class Value>
std::vector<Series> CurvePerLayer(const Comparison& comparison, const Value& value) {
  std::vector<Series> curves;
  for (const Layer* layer : comparison.options.layers) {
    Series curve = Named(layer->name());
    for (const ComparisonRow& row : comparison.rows) {
      if (row.layer != layer) continue;
      curve.x.push_back(static_cast<double>(row.length));
      curve.y.push_back(static_cast<double>(value(row)));
    }
    curves.push_back(std::move(curve));
  }
  return curves;
}

const Prose& Texts() {
  static const Prose prose(text::kComparisonProseTxt);
  return prose;
}

Figure Plot(const Comparison& comparison, const std::string& name, std::vector<Series> curves) {
  using namespace fmt::literals;
  const ComparisonOptions& options = comparison.options;
  const int threads = options.thread_counts.empty() ? 1 : options.thread_counts.back();
  Figure figure{
      .name = "compare-" + name,
      .title = Texts()(name + " title"),
      .caption = Texts()(name + " caption", "width"_a = options.width, "kernel"_a = options.kernel, "window"_a = options.window,
                         "threads"_a = threads == 1 ? "1 thread" : fmt::format("{} threads", threads),
                         "crossing"_a = comparison.crossovers.empty() ? 0 : comparison.crossovers.front().scores),
      .command = {},
      .seeds = fmt::format("seed {}", options.seed),
      .content = LinePlot{"Length n (tokens)", Texts()(name + " axis"), true, true, std::move(curves)}};
  figure.width = 860, figure.height = 460;  // the names of all layers stand beside the curves
  return figure;
}

// What is drawn of every layer over the length.
struct Quantity {
  const char* name;
  double (*of)(const ComparisonRow& row);
  bool (*known)(const ComparisonOptions& options);
};

bool WhenCounted(const ComparisonOptions&) { return true; }
bool Timed(const ComparisonOptions& options) { return !options.no_time; }
bool TimedOnMoreThreads(const ComparisonOptions& options) { return options.thread_counts.size() > 1; }

const Quantity kQuantities[] = {
    {"operations", [](const ComparisonRow& row) { return static_cast<double>(row.numbers().multiply_adds()); }, &WhenCounted},
    {"steps", [](const ComparisonRow& row) { return static_cast<double>(row.numbers().sequential_steps); }, &WhenCounted},
    {"span", [](const ComparisonRow& row) { return static_cast<double>(row.numbers().span); }, &WhenCounted},
    {"paths", [](const ComparisonRow& row) { return static_cast<double>(row.numbers().path_length); }, &WhenCounted},
    {"memory", [](const ComparisonRow& row) { return static_cast<double>(row.numbers().memory); }, &WhenCounted},
    {"time", [](const ComparisonRow& row) { return row.best_seconds(); }, &Timed},
    {"speedup", [](const ComparisonRow& row) { return row.seconds.front() / row.best_seconds(); }, &TimedOnMoreThreads},
};

// Two terms of self-attention and a vertical line where they cross.
Figure TermsFigure(const Comparison& comparison) {
  const Layer& attention = LayerNamed("attention");
  Series projections = Named("projections, 4 n d²"), scores = Named("scores and sums, 2 n² d"), crossing = Named("n = 2 d");
  for (const ComparisonRow& row : comparison.rows) {
    if (row.layer != &attention) continue;
    for (Series* series : {&projections, &scores}) series->x.push_back(static_cast<double>(row.length));
    projections.y.push_back(static_cast<double>(row.numbers().Of(Term::kProjections)));
    scores.y.push_back(static_cast<double>(row.numbers().scores_and_sums()));
  }
  const auto at = static_cast<double>(comparison.crossovers.front().scores);
  crossing.x = {at, at};
  crossing.y = {std::min(projections.y.front(), scores.y.front()), std::max(projections.y.back(), scores.y.back())};
  return Plot(comparison, "terms", {std::move(projections), std::move(scores), std::move(crossing)});
}

Figure InfluenceFigure(const Comparison& comparison) {
  std::vector<Series> curves;
  for (const InfluenceCurve& curve : comparison.influence) {
    Series series = Named(curve.encoder);
    for (std::size_t distance = 0; distance < curve.log10.size() && std::isfinite(curve.log10[distance]); ++distance) {
      series.x.push_back(static_cast<double>(distance));
      series.y.push_back(curve.log10[distance]);
    }
    curves.push_back(std::move(series));
  }
  Figure figure = Plot(comparison, "influence", std::move(curves));
  LinePlot& plot = std::get<LinePlot>(figure.content);
  plot.x_label = "Distance (tokens)";
  plot.log_x = plot.log_y = false;
  return figure;
}

Pattern ReadsOf(const char* layer) { return TraceRun(LayerNamed(layer), {.kernel = 3}, kTokens).reads; }

Figure Drawing(const std::string& name, Diagram diagram, int width) {
  return {.name = "compare-" + name,
          .title = Texts()(name + " title"),
          .caption = Texts()(name + " caption"),
          .command = {},
          .content = std::move(diagram),
          .width = width,
          .height = 300};
}

bool Always(int64_t, int64_t) { return true; }
bool InPlace(int64_t from, int64_t to) { return from == to; }
bool FromEarlier(int64_t from, int64_t to) { return from < to; }
bool FromThePrevious(int64_t from, int64_t to) { return from + 1 == to; }

}  // namespace

Figure ArchitecturesFigure() {
  Diagram diagram;
  const Pattern window = ReadsOf("convolution");
  const int bottom = AddRow(diagram, 0, 0, "x"), middle = AddRow(diagram, 0, 1, "h"), top = AddRow(diagram, 0, 2, "y");
  AddArrows(diagram, window, bottom, middle, Always);
  AddArrows(diagram, window, middle, top, Always);

  const Pattern cell = ReadsOf("rnn");
  const int inputs = AddRow(diagram, 6, 0, "x"), states = AddRow(diagram, 6, 1, "h");
  AddArrows(diagram, cell, inputs, states, InPlace);
  AddArrows(diagram, cell, states, states, FromEarlier);

  const int tokens = AddRow(diagram, 12, 0, "x"), outputs = AddRow(diagram, 12, 2, "y");
  AddArrows(diagram, ReadsOf("attention"), tokens, outputs, Always);
  return Drawing("architectures", std::move(diagram), 960);
}

Figure AttentionModelsFigure() {
  Diagram diagram;
  const Pattern tape = ReadsOf("lstmn");
  int inputs = AddRow(diagram, 0, 0, "x"), states = AddRow(diagram, 0, 1, "h");
  AddArrows(diagram, tape, inputs, states, InPlace);
  AddArrows(diagram, tape, states, states, FromEarlier);

  inputs = AddRow(diagram, 6, 0, "x");
  AddArrows(diagram, ReadsOf("decomposable"), inputs, AddRow(diagram, 6, 2, "y"), Always);

  double left = 12;
  for (const char* layer : {"self-attentive", "intra-decoder"}) {
    const Pattern reads = ReadsOf(layer);
    inputs = AddRow(diagram, left, 0, "x"), states = AddRow(diagram, left, 1, "h");
    AddArrows(diagram, reads, inputs, states, InPlace);
    AddArrows(diagram, reads, states, states, FromThePrevious);
    AddArrows(diagram, reads, states, AddRow(diagram, left, 2, "y"), Always);
    left += 6;
  }
  return Drawing("attention-models", std::move(diagram), 1240);
}

std::vector<Figure> ComparisonFigures(const Comparison& comparison) {
  std::vector<Figure> figures = {ArchitecturesFigure()};
  const auto precedes = [](const Layer* layer) {
    const std::string id = layer->facts().id;
    return id == "lstmn" || id == "decomposable" || id == "self-attentive" || id == "intra-decoder";
  };
  if (std::ranges::any_of(comparison.options.layers, precedes)) figures.push_back(AttentionModelsFigure());
  if (comparison.options.lengths.size() >= 2) {
    for (const Quantity& quantity : kQuantities) {
      if (quantity.known(comparison.options))
        figures.push_back(Plot(comparison, quantity.name, CurvePerLayer(comparison, quantity.of)));
      if (&quantity == kQuantities && !comparison.crossovers.empty()) figures.push_back(TermsFigure(comparison));
    }
  }
  if (!comparison.influence.empty()) figures.push_back(InfluenceFigure(comparison));
  return figures;
}

}  // namespace heed::lab
