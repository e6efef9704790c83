#include "lab/rates/rates.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>

#include <fmt/core.h>

#include "heed/error.h"
#include "lab/report/environment.h"
#include "lab/runs/experiment.h"
#include "lab/runs/show.h"
#include "lab/training/divergence.h"
#include "lab/training/evaluation.h"
#include "lab/training/short_run.h"

namespace heed::lab {
namespace {

constexpr double kWeightDecay = 0.1;

const Column& Loss() {
  static const Column loss = {
      {.name = "loss", .label = "Loss on validation text (nats per character)", .phrase = "{} nats"}, 0, /*optional=*/true};
  return loss;
}

ModelOptions ModelOf(const RateOptions& options, const SizedContender& model) {
  ModelOptions result;
  result.encoder = model.encoder;
  result.position = model.position;
  result.objective = options.Aim();
  result.layers = options.layers;
  result.heads = options.heads;
  result.width = options.width;
  result.context = options.context;
  result.ffn_width = model.ffn_width;
  return result;
}

Outcome TrainAt(const Corpus& corpus, const RateOptions& options, double rate, const SizedContender& model, uint64_t seed,
                const std::function<void()>& on_step) {
  TrainOptions training = ShortTraining(options.steps, rate, kWeightDecay);
  training.model = ModelOf(options, model);
  training.batch = options.batch;
  training.eval_every = options.steps;
  training.seed = seed;
  try {
    ShortRun run = TrainShortly(corpus.vocabulary, corpus.train, training, on_step);
    return {{Evaluate(run.model, corpus.validation, options.context).loss}};
  } catch (const Divergence&) {
    return {{NAN}};  // a result too: the rate is too large
  }
}

// What it refers to must outlive it.
Part PartOf(const Corpus& corpus, RateOptions& options, const Models& models, double rate) {
  return {.id = fmt::format("{}", rate),
          .models = models,
          .columns = {Loss()},
          .steps = options.steps,
          .settings = RunSettingsOf(FieldsOf(options)),
          .train = [&corpus, &options, rate](const SizedContender& model, uint64_t seed, const std::function<void()>& on_step) {
            return TrainAt(corpus, options, rate, model, seed, on_step);
          }};
}

// The rate at which the model that fares worst against its own best is the least behind, and how far that is.
struct CommonRate {
  std::size_t index;
  double behind;
};

std::optional<CommonRate> Common(const RatesResult& result, const std::vector<BestRate>& best) {
  std::optional<CommonRate> common;
  for (std::size_t r = 0; r < result.rates.size(); ++r) {
    double behind = 0;
    for (const BestRate& own : best) {
      const bool reaches = result.rates[r].Reaches(own.model, Loss());
      behind = std::max(behind, reaches ? result.rates[r].Over(own.model, Loss()).mean - own.loss.mean : INFINITY);
    }
    if (std::isfinite(behind) && (!common || behind < common->behind)) common = {r, behind};
  }
  return common;
}

std::string OwnFinding(const RatesResult& result, const std::vector<BestRate>& best) {
  std::vector<std::string> parts, least, most;
  for (const BestRate& own : best) {
    parts.push_back(fmt::format("at {:g} for {} ({})", own.rate, own.model.Phrase(), Loss().measure.Text(own.loss)));
    if (own.on_edge) (own.rate == result.options.rates.front() ? least : most).push_back(own.model.Phrase());
  }
  std::string text = fmt::format("The loss, in nats per character, is least {}.", Join(parts));
  if (!least.empty()) text += fmt::format(" For {} that is the smallest rate tried: a smaller one may do better.", Join(least));
  if (!most.empty()) text += fmt::format(" For {} that is the largest rate tried: a larger one may do better.", Join(most));
  return text;
}

std::string CommonFinding(const RatesResult& result, const std::vector<BestRate>& best) {
  const std::optional<CommonRate> common = Common(result, best);
  if (!common) return "No rate suits all: at each of them a model diverges.";
  const Measurements& at = result.rates[common->index];
  const SizedContender first = at.Ranked(Loss()).front();
  std::string text = fmt::format("At {:g} no model is more than {} nats behind what it reaches at a rate of its own.",
                                 result.options.rates[common->index], Loss().measure.Text(common->behind));
  if (first.Id() == best.front().model.Id()) return text + fmt::format(" {} is best either way.", Sentence(first.Phrase()));
  return text + fmt::format(" One rate for all changes who is best: {}, with rates of their own {}.", first.Phrase(),
                            best.front().model.Phrase());
}

// A curve a model over the rates at which no run diverged.
Figure RatesFigure(const RatesResult& result) {
  LinePlot plot{"Learning rate", Loss().measure.label, /*log_x=*/true, /*log_y=*/false, {}};
  for (const SizedContender& model : result.rates.front().models()) {
    Series series{.name = model.Label(), .x = {}, .y = {}, .low = {}, .high = {}};
    for (std::size_t r = 0; r < result.rates.size(); ++r) {
      if (!result.rates[r].Reaches(model, Loss())) continue;
      const Spread loss = result.rates[r].Over(model, Loss());
      series.x.push_back(result.options.rates[r]);
      series.y.push_back(loss.mean);
      series.low.push_back(loss.low);
      series.high.push_back(loss.high);
    }
    plot.series.push_back(std::move(series));
  }
  return {.name = "rates",
          .title = fmt::format("Loss after {} steps over the learning rate", result.options.steps),
          .caption = SpreadNote(result.options.seeds, "The band reaches") + " Where a curve ends, the next rate diverged.",
          .command = {},
          .content = std::move(plot)};
}

Table RatesTable(const RatesResult& result) {
  Table table{"Loss on validation text in nats per character, " + SpreadInWords(result.options.seeds), {"Model"}, {}};
  for (const double rate : result.options.rates) table.header.push_back(fmt::format("{:g}", rate));
  for (const SizedContender& model : result.rates.front().models()) {
    std::vector<std::string> row = {model.Label()};
    for (const Measurements& rate : result.rates) {
      row.push_back(rate.Reaches(model, Loss()) ? Loss().measure.Cell(rate.Over(model, Loss())) : "n/a");
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace

RatesResult MeasureRates(const Corpus& corpus, const RateOptions& options, const ResultStore* store) {
  Validate(options);
  Corpus shortened = corpus;
  shortened.validation.resize(std::min<std::size_t>(corpus.validation.size(), static_cast<std::size_t>(options.validation)));
  if (static_cast<int64_t>(shortened.validation.size()) <= options.context) {
    throw InvalidArgument(fmt::format("context: a window of {} characters does not fit the {} that are evaluated",
                                      options.context, shortened.validation.size()));
  }
  const Models models =
      EqualContenders(options.encoders, options.positions, options.width, 4 * options.width,
                      [&](const Contender& contender, int64_t ffn_width) {
                        return LanguageModel(ModelOf(options, {contender, ffn_width, 0}), corpus.vocabulary)->ParameterCount();
                      });
  RatesResult result{options, {}};
  std::vector<Part> parts;
  parts.reserve(options.rates.size());
  for (const double rate : options.rates) parts.push_back(PartOf(shortened, result.options, models, rate));
  result.rates = RunParts("rates", parts, {options.seed, options.seeds, options.threads, options.quiet}, store);
  return result;
}

std::vector<BestRate> BestRates(const RatesResult& result) {
  std::vector<BestRate> best;
  for (const SizedContender& model : result.rates.front().models()) {
    std::optional<BestRate> own;
    for (std::size_t r = 0; r < result.rates.size(); ++r) {
      if (!result.rates[r].Reaches(model, Loss())) continue;
      const Spread loss = result.rates[r].Over(model, Loss());
      if (!own || loss.mean < own->loss.mean) {
        own = {model, result.options.rates[r], loss, r == 0 || r + 1 == result.rates.size()};
      }
    }
    if (own) best.push_back(*own);
  }
  std::ranges::stable_sort(best, [](const BestRate& a, const BestRate& b) { return a.loss.mean < b.loss.mean; });
  return best;
}

std::vector<Finding> RatesConclusion(const RatesResult& result) {
  const std::vector<BestRate> best = BestRates(result);
  if (best.empty()) return {{"Which learning rate?", "Every model diverges at every rate that was tried."}};
  return Answered({{"Which learning rate?", OwnFinding(result, best)},
                   {"Would one rate do for all?", best.size() > 1 ? CommonFinding(result, best) : ""}});
}

nlohmann::ordered_json RatesJson(const RatesResult& result) {
  RateOptions options = result.options;
  nlohmann::ordered_json json = {{"settings", {{"budget", options.budget}}},
                                 {"environment", ToJson(ThisEnvironment())},
                                 {"conclusion", ToJson(RatesConclusion(result))},
                                 {"rates", nlohmann::ordered_json::array()}};
  json["settings"].update(SettingsOf(FieldsOf(options)));
  for (std::size_t r = 0; r < result.rates.size(); ++r) {
    json["rates"].push_back({{"rate", options.rates[r]}, {"models", result.rates[r].Json()}});
  }
  return json;
}

std::filesystem::path WriteRates(const RatesResult& result, const std::string& text, const std::string& command,
                                 const std::filesystem::path& folder) {
  Page page("Which learning rate?", folder, command, SeedsOf(result.options.seed, result.options.seeds));
  page.Say("Measured on " + text + ".");
  for (const Finding& finding : RatesConclusion(result)) page.Say(finding.answer);
  page.Show(RatesFigure(result));
  page.Show(RatesTable(result));
  std::vector<const Measurements*> all;
  all.reserve(result.rates.size());
  for (const Measurements& rate : result.rates) all.push_back(&rate);
  page.Keep("rates.csv", MeasurementsCsv("rate", "", all));
  page.KeepJson("rates.json", RatesJson(result));
  return page.Write();
}

}  // namespace heed::lab
