#include "lab/study/run.h"

#include <cmath>

#include "lab/training/evaluation.h"
#include "lab/training/short_run.h"

namespace heed::lab {
namespace {

// Block by block, in windows of `length` characters.
std::vector<double> BlockLosses(LanguageModel& model, const std::vector<std::vector<int32_t>>& blocks, int64_t length) {
  std::vector<double> losses;
  losses.reserve(blocks.size());
  for (const std::vector<int32_t>& block : blocks) losses.push_back(Evaluate(model, block, length).loss);
  return losses;
}

}  // namespace

std::vector<Column> StudyColumns(const StudyOptions& options) {
  const Measure loss = {
      .name = "loss", .label = "Loss on the test part (nats per character)", .phrase = "{} nats per character"};
  const Measure validation = {.name = "validation_loss", .label = "Loss on the validation part (nats per character)"};
  const Measure training = {.name = "training_loss", .label = "Training loss (nats per character)"};
  std::vector<Column> columns;
  for (const int64_t multiple : kLengthMultiples)
    columns.push_back({loss, multiple * options.context, /*optional=*/multiple > 1});
  columns.push_back({validation});
  for (int64_t point = 1; point <= kCurvePoints; ++point)
    columns.push_back({training, 100 * point / kCurvePoints, /*optional=*/true});
  return columns;
}

double TrainAndValidate(const TextParts& parts, const TrainOptions& options, const OnStep& on_step) {
  ShortRun run = TrainShortly(parts.vocabulary, parts.train, options, on_step);
  return MeanOf(BlockLosses(run.model, parts.validation, options.model.context));
}

Outcome TrainAndReport(const TextParts& parts, const TrainOptions& options, const ObserveModel& observe,
                       const OnStep& on_step) {
  ShortRun run = TrainShortly(parts.vocabulary, parts.train, options, on_step);
  Outcome outcome{{}, {{"blocks", BlockLosses(run.model, parts.test, options.model.context)}}};
  outcome.values.push_back(MeanOf(outcome.more["blocks"].get<std::vector<double>>()));
  nlohmann::ordered_json& longer = outcome.more["longer"] = nlohmann::ordered_json::object();
  for (const int64_t multiple : kLengthMultiples) {
    if (multiple == 1) continue;
    const int64_t length = multiple * options.model.context;
    outcome.values.push_back(NAN);
    if (length > run.model->longest()) continue;
    const std::vector<double> losses = BlockLosses(run.model, parts.test, length);
    outcome.values.back() = MeanOf(losses);
    longer[std::to_string(length)] = losses;
  }
  outcome.values.push_back(MeanOf(BlockLosses(run.model, parts.validation, options.model.context)));
  outcome.values.insert(outcome.values.end(), run.curve.begin(), run.curve.end());
  if (observe) outcome.more["observed"] = observe(run.model);
  return outcome;
}

std::vector<std::vector<double>> LossesAt(const Measurements& measured, const Contender& model, int64_t length) {
  std::vector<std::vector<double>> losses;
  for (int64_t s = 0; s < measured.seeds(); ++s) {
    const nlohmann::ordered_json& more = measured.More(model, static_cast<std::size_t>(s));
    const std::string key = std::to_string(length);
    if (!more.contains("longer") || !more.at("longer").contains(key)) return {};
    losses.push_back(more.at("longer").at(key).get<std::vector<double>>());
  }
  return losses;
}

nlohmann::ordered_json ObservedOf(const Measurements& measured, const Contender& model, std::size_t seed) {
  const nlohmann::ordered_json& more = measured.More(model, seed);
  return more.contains("observed") ? more.at("observed") : nlohmann::ordered_json();
}

}  // namespace heed::lab
