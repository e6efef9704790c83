#include "book/depth/output.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "lab/report/figure.h"
#include "lab/report/page.h"

namespace heed::lab {
namespace {

std::string Number(double value) { return std::isfinite(value) ? fmt::format("{:.3g}", value) : "n/a"; }

// Calls visit(kind, stack) for every stack.
template <class Visit>
void ForEachStack(const DepthResult& result, const Visit& visit) {
  for (const DepthStack& stack : result.started) visit("start", stack);
  for (const DepthStack& stack : result.trained) visit("trained", stack);
}

Table VariantTable(const DepthResult& result) {
  Table table{"The stacks", {"Stack", "Residual connections", "LayerNorm", "Feed-forward"}, {}};
  for (const StackVariant& variant : AllVariants()) {
    const auto named = [&](const std::vector<std::string>& ids) {
      return std::find(ids.begin(), ids.end(), variant.id) != ids.end();
    };
    if (!named(result.options.variants) && !named(result.options.trained)) continue;
    table.rows.push_back({variant.label, variant.residual ? "yes" : "no",
                          variant.norm == StackNorm::kNone  ? "no"
                          : variant.norm == StackNorm::kPre ? "before"
                                                            : "behind",
                          variant.feed_forward ? "yes" : "no"});
  }
  return table;
}

// After layers 1, 2, 4, .. and the last: the distance to equal rows, then to rank one.
Table RankTable(const DepthResult& result, Objective objective) {
  Table table{objective == Objective::kCausal ? "Distance to equal rows / to rank one, the past alone in sight, as stacks start"
                                              : "Distance to equal rows / to rank one, all tokens in sight, as stacks start",
              {"Stack", "Positions", "Input"},
              {}};
  std::vector<std::size_t> layers;
  for (int64_t l = 1; l < result.options.layers; l *= 2) layers.push_back(static_cast<std::size_t>(l));
  layers.push_back(static_cast<std::size_t>(result.options.layers));
  for (const std::size_t layer : layers) table.header.push_back("Layer " + std::to_string(layer));
  for (const DepthStack& stack : result.started) {
    if (stack.objective != objective) continue;
    std::vector<std::string> row = {VariantNamed(stack.variant).label, stack.position};
    const auto add = [&](const LayerProfile& layer) {
      row.push_back(Number(layer.distance_to_equal_rows) + " / " + Number(layer.distance_to_rank_one));
    };
    add(stack.profile.layers.front());
    for (const std::size_t layer : layers) add(stack.profile.layers[layer]);
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table TrainedTable(const DepthResult& result) {
  Table table{fmt::format("Trained for {} steps of {} windows of {} characters; validation loss in nats per character "
                          "(frequencies alone: {:.3f}), microseconds per token, distance to equal rows behind the last layer",
                          result.options.steps, result.options.batch, result.options.context, result.frequencies),
              {"Stack", "Layers", "Parameters", "Loss", "Time", "Distance", "Finite"},
              {}};
  for (const DepthStack& stack : result.trained) {
    table.rows.push_back({VariantNamed(stack.variant).label, std::to_string(stack.layers), std::to_string(stack.parameters),
                          std::isfinite(stack.loss) ? fmt::format("{:.3f}", stack.loss) : "n/a",
                          fmt::format("{:.1f}", stack.microseconds_per_token),
                          Number(stack.profile.layers.back().distance_to_equal_rows),
                          stack.broke_at == 0 ? "yes" : fmt::format("up to step {}", stack.broke_at - 1)});
  }
  return table;
}

}  // namespace

std::string DepthCsv(const DepthResult& result) {
  CsvText csv;
  csv.Row("kind", "variant", "position", "objective", "layers", "layer", "distance_to_equal_rows", "distance_to_rank_one",
          "size", "state_gradient", "parameter_gradient", "query_key_gradient");
  ForEachStack(result, [&](const char* kind, const DepthStack& stack) {
    for (std::size_t l = 0; l < stack.profile.layers.size(); ++l) {
      const LayerProfile& layer = stack.profile.layers[l];
      csv.Row(kind, stack.variant, stack.position, ToString(stack.objective), stack.layers, l, layer.distance_to_equal_rows,
              layer.distance_to_rank_one, layer.size, layer.state_gradient, layer.parameter_gradient, layer.query_key_gradient);
    }
  });
  return csv.text();
}

std::string DepthHeadsCsv(const DepthResult& result) {
  CsvText csv;
  csv.Row("kind", "variant", "position", "objective", "layers", "layer", "head", "entropy", "largest_weight");
  ForEachStack(result, [&](const char* kind, const DepthStack& stack) {
    for (std::size_t l = 1; l < stack.profile.layers.size(); ++l) {
      const LayerProfile& layer = stack.profile.layers[l];
      for (std::size_t h = 0; h < layer.entropy.size(); ++h) {
        csv.Row(kind, stack.variant, stack.position, ToString(stack.objective), stack.layers, l, h, layer.entropy[h],
                layer.largest_weight[h]);
      }
    }
  });
  return csv.text();
}

nlohmann::ordered_json DepthJson(const DepthResult& result) {
  DepthOptions options = result.options;
  nlohmann::ordered_json json = {{"options", SettingsOf(FieldsOf(options))},
                                 {"findings", nlohmann::ordered_json::array()},
                                 {"frequencies", result.frequencies},
                                 {"started", nlohmann::ordered_json::array()},
                                 {"trained", nlohmann::ordered_json::array()}};
  for (const DepthFinding& finding : DepthFindings(result)) {
    if (!finding.text.empty()) json["findings"].push_back(finding.text);
  }
  for (const DepthStack& stack : result.started) {
    json["started"].push_back({{"variant", stack.variant},
                               {"position", stack.position},
                               {"objective", ToString(stack.objective)},
                               {"profile", ToJson(stack.profile)}});
  }
  for (const DepthStack& stack : result.trained) json["trained"].push_back(ToJson(stack));
  return json;
}

std::filesystem::path WriteDepth(const DepthResult& result, const std::string& text, const std::string& command,
                                 const std::filesystem::path& folder) {
  Page page("Depth: stacks of many attention layers", folder, command, {});
  page.Say(DepthConclusion(result));
  page.Section("Stacks over " + text);
  const std::vector<Figure> figures = DepthFigures(result);
  for (const DepthFinding& finding : DepthFindings(result)) {
    page.Say(finding.text);
    for (const Figure& figure : figures) {
      if (std::ranges::count(finding.figures, figure.name) > 0) page.Show(figure);
    }
  }
  page.Show(VariantTable(result));
  for (const Objective objective : {Objective::kMasked, Objective::kCausal}) page.Show(RankTable(result, objective));
  if (!result.trained.empty()) page.Show(TrainedTable(result));
  page.Keep("depth.csv", DepthCsv(result));
  page.Keep("depth-heads.csv", DepthHeadsCsv(result));
  page.KeepJson("depth.json", DepthJson(result));
  return page.Write();
}

}  // namespace heed::lab
