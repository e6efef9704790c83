#include "book/depth/output.h"

#include <numeric>
#include <string>
#include <utility>

#include <fmt/core.h>

#include "lab/runs/measurements.h"

namespace heed::lab {
namespace {

constexpr char kDistance[] = "|X - 1 x^T| / |X|";

// One number of every layer from `first` on, a curve for each stack.
template <class Number>
std::vector<Series> ByLayer(const std::vector<NamedProfile>& stacks, std::size_t first, const Number& number) {
  std::vector<Series> curves;
  for (const NamedProfile& stack : stacks) {
    Series& series = curves.emplace_back(Series{.name = stack.name, .x = {}, .y = {}, .low = {}, .high = {}});
    for (std::size_t l = first; l < stack.profile->layers.size(); ++l) {
      series.x.push_back(static_cast<double>(l));
      series.y.push_back(number(stack.profile->layers[l]));
    }
  }
  return curves;
}

double Distance(const LayerProfile& layer) { return layer.distance_to_equal_rows; }

Figure RankFigure(const DepthResult& result, Objective objective) {
  const bool causal = objective == Objective::kCausal;
  return {.name = causal ? "depth-rank-causal" : "depth-rank",
          .title = causal ? "How different the tokens still are, by layer, with only the past in sight"
                          : "How different the tokens still are, by layer, with all tokens in sight",
          .caption =
              "Stacks as they start, without positions. At 1 the tokens of a window have nothing in common, at 0 all have the "
              "same state. Below 1e-15 there is only rounding.",
          .command = {},
          .content = LinePlot{"Layer", kDistance, false, true, ByLayer(result.Variants(objective), 0, Distance)},
          .width = 760};
}

Figure PositionsFigure(const DepthResult& result) {
  return {
      .name = "depth-rank-positions",
      .title = "How different the tokens still are in attention alone, by layer and scheme",
      .caption = "Stacks as they start, with all tokens in sight, without residual connections, LayerNorm and feed-forward.",
      .command = {},
      .content = LinePlot{"Layer", kDistance, false, true, ByLayer(result.Positions(), 0, Distance)}};
}

Figure AttentionFigure(const DepthResult& result, bool entropy) {
  const auto number = [entropy](const LayerProfile& layer) { return MeanOver(entropy ? layer.entropy : layer.largest_weight); };
  return {.name = entropy ? "depth-entropy" : "depth-largest-weight",
          .title = entropy ? "Entropy of attention by layer, as a share of that of even weights"
                           : "Largest weight of a query by layer",
          .caption = fmt::format("Stacks as they start, all tokens in sight; means over heads and queries. {}",
                                 entropy ? "At 1 every query looks at all tokens alike."
                                         : fmt::format("Even weights are {}.", FormatNumber(1.0 / result.options.context))),
          .command = {},
          .content = LinePlot{"Layer", entropy ? "Entropy / largest possible" : "Largest weight", false, !entropy,
                              ByLayer(result.Variants(Objective::kMasked), 1, number)},
          .width = 760};
}

Figure GradientFigure(const DepthResult& result, bool states) {
  const auto number = [states](const LayerProfile& layer) { return states ? layer.state_gradient : layer.query_key_gradient; };
  return {.name = states ? "depth-gradient" : "depth-query-key-gradient",
          .title = states ? "Gradient of the loss by the states after each layer"
                          : "Gradient of the loss by the queries' and keys' matrices of each layer",
          .caption = states ? "Stacks as they start. Layer 0 is the input. A stack whose curve falls to the left loses the "
                              "gradient on the way to the input; one whose curve rises to the left blows it up."
                            : "Stacks as they start. When all tokens are alike, the weights of attention change nothing, and "
                              "queries and keys get no gradient.",
          .command = {},
          .content = LinePlot{"Layer", states ? "|d loss / d X|" : "|d loss / d (W_q, W_k)|", false, true,
                              ByLayer(result.Variants(Objective::kMasked), states ? 0 : 1, number)},
          .width = 760};
}

// A curve over the depths for each trained variant.
template <class Number>
std::vector<Series> OfTrained(const DepthResult& result, const Number& number) {
  std::vector<Series> curves;
  for (const std::string& id : result.options.trained) {
    Series series{.name = VariantNamed(id).label, .x = {}, .y = {}, .low = {}, .high = {}};
    for (const int64_t depth : result.options.depths) {
      const DepthStack* stack = result.Trained(id, depth);
      if (stack == nullptr) continue;
      series.x.push_back(static_cast<double>(depth));
      series.y.push_back(number(*stack));
    }
    curves.push_back(std::move(series));
  }
  return curves;
}

Figure LossFigure(const DepthResult& result) {
  std::vector<Series> curves = OfTrained(result, [](const DepthStack& stack) { return stack.loss; });
  Series frequencies{.name = "frequencies alone", .x = {}, .y = {}, .low = {}, .high = {}};
  for (const int64_t depth : result.options.depths) {
    frequencies.x.push_back(static_cast<double>(depth));
    frequencies.y.push_back(result.frequencies);
  }
  curves.push_back(std::move(frequencies));
  return {.name = "depth-loss",
          .title = fmt::format("Loss after {} steps by the number of layers", result.options.steps),
          .caption =
              "On validation text, predicting the next character. A stack at the line of the frequencies has learnt only how "
              "often characters occur.",
          .command = {},
          .content = LinePlot{"Layers", "Loss (nats per character)", true, false, std::move(curves)}};
}

Figure TimeFigure(const DepthResult& result) {
  return {.name = "depth-time",
          .title = "Time of a training step per token by the number of layers",
          .caption = "Forward, backward and the optimiser's step, of one thread's own time.",
          .command = {},
          .content = LinePlot{"Layers", "Microseconds per token", true, true,
                              OfTrained(result, [](const DepthStack& stack) { return stack.microseconds_per_token; })}};
}

Figure TrainedRankFigure(const DepthResult& result) {
  const int64_t deepest = result.options.depths.back();
  std::vector<NamedProfile> stacks;
  for (const std::string& id : result.options.trained) {
    if (const DepthStack* stack = result.Trained(id, deepest)) stacks.push_back({VariantNamed(id).label, &stack->profile});
  }
  return {.name = "depth-rank-trained",
          .title = fmt::format("How different the tokens still are in trained stacks of {} layers", deepest),
          .caption = fmt::format("After {} steps, with only the past in sight.", result.options.steps),
          .command = {},
          .content = LinePlot{"Layer", kDistance, false, true, ByLayer(stacks, 0, Distance)}};
}

}  // namespace

double MeanOver(const std::vector<double>& heads) {
  return std::accumulate(heads.begin(), heads.end(), 0.0) / static_cast<double>(heads.size());
}

std::vector<Figure> DepthFigures(const DepthResult& result) {
  std::vector<Figure> figures = {RankFigure(result, Objective::kMasked), RankFigure(result, Objective::kCausal)};
  if (result.options.positions.size() > 1) figures.push_back(PositionsFigure(result));
  figures.push_back(AttentionFigure(result, /*entropy=*/true));
  figures.push_back(AttentionFigure(result, /*entropy=*/false));
  figures.push_back(GradientFigure(result, /*states=*/true));
  figures.push_back(GradientFigure(result, /*states=*/false));
  if (!result.trained.empty()) {
    figures.push_back(LossFigure(result));
    figures.push_back(TrainedRankFigure(result));
    figures.push_back(TimeFigure(result));
  }
  for (Figure& figure : figures) figure.seeds = SeedsOf(result.options.seed, 1);
  return figures;
}

}  // namespace heed::lab
