#include "book/comparison/figures.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <variant>

#include "book/comparison/counting.h"

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

struct Words {
  std::string name, title, caption, x_label, y_label;
};

Figure Plot(const Comparison& comparison, const Words& words, std::vector<Series> curves) {
  LinePlot plot{.x_label = words.x_label, .y_label = words.y_label, .log_x = true, .log_y = true, .series = std::move(curves)};
  Figure figure{.name = words.name,
                .title = words.title,
                .caption = words.caption,
                .command = {},
                .seeds = "seed " + std::to_string(comparison.options.seed),
                .content = std::move(plot)};
  figure.width = 860, figure.height = 460;  // the names of all layers stand beside the curves
  return figure;
}

Figure OverLength(const Comparison& comparison, const std::string& name, const std::string& title, const std::string& caption,
                  const std::string& y_label, std::vector<Series> curves) {
  return Plot(comparison, {name, title, caption, "Length n (tokens)", y_label}, std::move(curves));
}

Figure OperationsFigure(const Comparison& comparison) {
  return OverLength(comparison, "compare-operations", "Operations of one layer",
                    "Multiply-adds counted on the running layers at width " + std::to_string(comparison.options.width) +
                        ". All grow with n but self-attention over all positions, whose scores and sums grow with n².",
                    "Multiply-adds",
                    CurvePerLayer(comparison, [](const ComparisonRow& row) { return row.numbers().multiply_adds(); }));
}

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
  return OverLength(comparison, "compare-terms", "Where the quadratic part of self-attention begins to matter",
                    "Multiply-adds of its projections and of its scores and sums, counted. They are equal where n is twice the "
                    "width, here " +
                        std::to_string(comparison.crossovers.front().scores) + ".",
                    "Multiply-adds", {std::move(projections), std::move(scores), std::move(crossing)});
}

Figure SpanFigure(const Comparison& comparison) {
  return OverLength(comparison, "compare-span", "Longest chain of operations",
                    "A sum of m terms counts as ⌈log2 m⌉ levels: the time on any number of processors. Self-attention, one "
                    "sequential step in tables, grows with log n. A recurrence stays linear in n, unless it is linear itself "
                    "and computed by a scan or, 64 tokens at a time, in chunks.",
                    "Operations one after the other",
                    CurvePerLayer(comparison, [](const ComparisonRow& row) { return row.numbers().span; }));
}

Figure PathsFigure(const Comparison& comparison) {
  return OverLength(
      comparison, "compare-paths", "Path from the first to the last token",
      "Hops between positions, found by reachability on the running layers, stacking layers (kernel " +
          std::to_string(comparison.options.kernel) + ", window " + std::to_string(comparison.options.window) +
          ") as needed. Curves that coincide lie one on another; where the centred dilated stack has no point it never "
          "connects "
          "the two. A short path is not sufficient: it tells how far information must travel, not how much of it arrives.",
      "Hops", CurvePerLayer(comparison, [](const ComparisonRow& row) { return row.numbers().path_length; }));
}

Figure MemoryFigure(const Comparison& comparison) {
  return OverLength(comparison, "compare-memory", "Activations held at once",
                    "Numbers beside the input at the peak of a forward pass, counted. Self-attention keeps the weights of one "
                    "query at a time; a table of all of them would add n² per head.",
                    "Numbers", CurvePerLayer(comparison, [](const ComparisonRow& row) { return row.numbers().memory; }));
}

Figure TimeFigure(const Comparison& comparison) {
  const int threads = comparison.options.thread_counts.back();
  return OverLength(comparison, "compare-time", "Time of one forward pass",
                    "Fastest forward pass of the layer in float32, batch of one, without gradients, on " +
                        std::to_string(threads) + (threads == 1 ? " thread." : " threads."),
                    "Seconds", CurvePerLayer(comparison, [](const ComparisonRow& row) { return row.best_seconds(); }));
}

Figure SpeedupFigure(const Comparison& comparison) {
  const std::string threads = std::to_string(comparison.options.thread_counts.back());
  return OverLength(
      comparison, "compare-speedup", "What more threads bring",
      "Time on one thread over time on " + threads +
          ". Threads cannot share operations that wait for each other; they share independent ones, once these take longer "
          "than waking a thread.",
      "Speed-up", CurvePerLayer(comparison, [](const ComparisonRow& row) { return row.seconds.front() / row.best_seconds(); }));
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
  Figure figure = Plot(comparison,
                       {"compare-influence", "Influence of a token on the last output",
                        "log10 of the norm of dy_n / dx_i against the distance n - i: gradients of heed's causal encoders of "
                        "two layers with their initial weights, in double. A straight line is exponential decay. A curve ends "
                        "where the gradient is exactly 0, beyond "
                        "a receptive field, or below 1e-308.",
                        "Distance (tokens)", "log10 of the norm of the gradient"},
                       std::move(curves));
  LinePlot& plot = std::get<LinePlot>(figure.content);
  plot.log_x = plot.log_y = false;
  return figure;
}

BitMatrix ReadsOf(const char* layer) { return TraceRun(LayerNamed(layer), {.kernel = 3}, kTokens).reads; }

bool Always(int64_t, int64_t) { return true; }
bool InPlace(int64_t from, int64_t to) { return from == to; }
bool FromEarlier(int64_t from, int64_t to) { return from < to; }
bool FromThePrevious(int64_t from, int64_t to) { return from + 1 == to; }

}  // namespace

Figure ArchitecturesFigure() {
  Diagram diagram;
  const BitMatrix window = ReadsOf("convolution");
  const int bottom = AddRow(diagram, 0, 0, "x"), middle = AddRow(diagram, 0, 1, "h"), top = AddRow(diagram, 0, 2, "y");
  AddArrows(diagram, window, bottom, middle, Always);
  AddArrows(diagram, window, middle, top, Always);

  const BitMatrix cell = ReadsOf("rnn");
  const int inputs = AddRow(diagram, 6, 0, "x"), states = AddRow(diagram, 6, 1, "h");
  AddArrows(diagram, cell, inputs, states, InPlace);
  AddArrows(diagram, cell, states, states, FromEarlier);

  const int tokens = AddRow(diagram, 12, 0, "x"), outputs = AddRow(diagram, 12, 2, "y");
  AddArrows(diagram, ReadsOf("attention"), tokens, outputs, Always);
  return {.name = "compare-architectures",
          .title = "Convolution, recurrence and self-attention over five tokens",
          .caption =
              "Left: two layers of a convolution with a window of three; the first and the last token meet in the middle "
              "position after two layers. Middle: a recurrence, four hops from first to last. Right: self-attention, "
              "one hop between any two.",
          .command = {},
          .content = std::move(diagram),
          .width = 960,
          .height = 300};
}

Figure AttentionModelsFigure() {
  Diagram diagram;
  const BitMatrix tape = ReadsOf("lstmn");
  int inputs = AddRow(diagram, 0, 0, "x"), states = AddRow(diagram, 0, 1, "h");
  AddArrows(diagram, tape, inputs, states, InPlace);
  AddArrows(diagram, tape, states, states, FromEarlier);

  inputs = AddRow(diagram, 6, 0, "x");
  AddArrows(diagram, ReadsOf("decomposable"), inputs, AddRow(diagram, 6, 2, "y"), Always);

  double left = 12;
  for (const char* layer : {"self-attentive", "intra-decoder"}) {
    const BitMatrix reads = ReadsOf(layer);
    inputs = AddRow(diagram, left, 0, "x"), states = AddRow(diagram, left, 1, "h");
    AddArrows(diagram, reads, inputs, states, InPlace);
    AddArrows(diagram, reads, states, states, FromThePrevious);
    AddArrows(diagram, reads, states, AddRow(diagram, left, 2, "y"), Always);
    left += 6;
  }
  return {.name = "compare-attention-models",
          .title = "Attention before the Transformer over five tokens",
          .caption =
              "From left to right: the LSTMN, whose states read all states before them; decomposable attention, which reads "
              "all inputs and has no states; the self-attentive embedding of the tokens so far and the intra-decoder, which "
              "attend to the states of an LSTM. Arrows show what the running layers read.",
          .command = {},
          .content = std::move(diagram),
          .width = 1240,
          .height = 300};
}

std::vector<Figure> ComparisonFigures(const Comparison& comparison) {
  std::vector<Figure> figures = {ArchitecturesFigure()};
  const auto precedes = [](const Layer* layer) {
    const std::string id = layer->facts().id;
    return id == "lstmn" || id == "decomposable" || id == "self-attentive" || id == "intra-decoder";
  };
  if (std::ranges::any_of(comparison.options.layers, precedes)) figures.push_back(AttentionModelsFigure());
  if (comparison.options.lengths.size() >= 2) {
    figures.push_back(OperationsFigure(comparison));
    if (!comparison.crossovers.empty()) figures.push_back(TermsFigure(comparison));
    figures.push_back(OverLength(
        comparison, "compare-steps", "Sequential steps of one layer",
        "States that must be computed one after the other: all of them in a recurrence, a logarithm of them in a scan, one of "
        "64 in chunks, one in the others. Curves that coincide lie one on another.",
        "Sequential steps",
        CurvePerLayer(comparison, [](const ComparisonRow& row) { return row.numbers().sequential_steps; })));
    figures.push_back(SpanFigure(comparison));
    figures.push_back(PathsFigure(comparison));
    figures.push_back(MemoryFigure(comparison));
    if (!comparison.options.no_time) figures.push_back(TimeFigure(comparison));
    if (comparison.options.thread_counts.size() > 1) figures.push_back(SpeedupFigure(comparison));
  }
  if (!comparison.influence.empty()) figures.push_back(InfluenceFigure(comparison));
  return figures;
}

}  // namespace heed::lab
