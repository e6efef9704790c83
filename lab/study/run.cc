#include "lab/study/run.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <mutex>

#include <ATen/core/grad_mode.h>

#include "heed/error.h"
#include "heed/nn/positional_encoding.h"
#include "lab/positions/scheme_table.h"
#include "lab/training/evaluation.h"
#include "lab/training/interrupt.h"
#include "lab/training/side_by_side.h"
#include "lab/training/trainer.h"

namespace heed::lab {
namespace {

constexpr int64_t kCurvePoints = 40;

// From the 0.02 that the model draws its embeddings and linear layers with to InitialDeviation.
void ScaleInitialWeights(LanguageModel& model) {
  const at::NoGradGuard no_grad;
  const double scale = InitialDeviation(model->options().width) / 0.02;
  for (const auto& module : model->modules(/*include_self=*/false)) {
    if (auto* embedding = module->as<torch::nn::EmbeddingImpl>()) embedding->weight.mul_(scale);
    if (auto* learned = module->as<nn::LearnedPositionsImpl>()) learned->weight.mul_(scale);
    if (auto* linear = module->as<torch::nn::LinearImpl>()) linear->weight.mul_(scale);
  }
}

// A trainer seeds PyTorch's one default generator and draws its weights from it; without dropout nothing is drawn later.
Trainer MakeTrainer(const Corpus& corpus, const TrainOptions& options) {
  static std::mutex generator;
  const std::lock_guard<std::mutex> lock(generator);
  Trainer trainer(corpus, options);
  ScaleInitialWeights(trainer.model());
  return trainer;
}

void TrainAll(Trainer& trainer, const TrainOptions& options, StudyRun& run, const std::function<void(int64_t)>& on_step) {
  const int64_t points = std::min(kCurvePoints, options.steps);
  double sum = 0, seconds = 0;
  int64_t count = 0;
  while (!trainer.Done()) {
    if (Interrupted()) throw Interruption("interrupted during training");
    const double start = ThreadSeconds();
    sum += trainer.Step();
    seconds += ThreadSeconds() - start;
    ++count;
    const int64_t step = trainer.step();
    if (step * points / options.steps > (step - 1) * points / options.steps) {
      run.curve_steps.push_back(step);
      run.curve_losses.push_back(sum / static_cast<double>(count));
      sum = 0, count = 0;
    }
    on_step(step);
  }
  run.tokens_per_second = static_cast<double>(options.steps * options.batch * options.model.context) / std::max(seconds, 1e-9);
}

}  // namespace

StudyRun TrainAndEvaluate(const Corpus& corpus, const TrainOptions& options, const std::function<void(int64_t)>& on_step) {
  StudyRun run;
  run.seed = options.seed;
  Trainer trainer = MakeTrainer(corpus, options);
  TrainAll(trainer, options, run, on_step);
  for (const int64_t multiple : kLengthMultiples) {
    const int64_t length = multiple * options.model.context;
    const bool reached = length <= trainer.model()->longest();
    run.losses.push_back(reached ? Evaluate(trainer.model(), corpus.validation, length).loss : kNoLoss);
  }
  run.table = TrainedTable(trainer.model(), 0);
  return run;
}

namespace {

nlohmann::ordered_json ToJson(const SchemeTable& table) {
  return {{"scheme", table.scheme}, {"rows", table.rows}, {"columns", table.columns}, {"values", table.values}};
}

SchemeTable TableFromJson(const nlohmann::ordered_json& json) {
  SchemeTable table{json.at("scheme").get<std::string>(), json.at("rows").get<int64_t>(), json.at("columns").get<int64_t>(),
                    json.at("values").get<std::vector<double>>(), /*trained=*/true};
  const auto size = static_cast<int64_t>(table.values.size());
  if (table.rows < 1 || table.columns < 1 || size % table.rows != 0 || size / table.rows != table.columns) {
    throw InvalidArgument("table: it is not whole");
  }
  return table;
}

}  // namespace

nlohmann::ordered_json ToJson(const StudyRun& run) {
  nlohmann::ordered_json losses = nlohmann::ordered_json::array();
  for (const double loss : run.losses) losses.push_back(std::isfinite(loss) ? nlohmann::ordered_json(loss) : nullptr);
  nlohmann::ordered_json json = {{"seed", run.seed},
                                 {"losses", losses},
                                 {"tokens_per_second", run.tokens_per_second},
                                 {"curve_steps", run.curve_steps},
                                 {"curve_losses", run.curve_losses}};
  if (run.table) json["table"] = ToJson(*run.table);
  return json;
}

StudyRun RunFromJson(const nlohmann::ordered_json& json) {
  StudyRun run;
  run.seed = json.at("seed").get<uint64_t>();
  run.curve_steps = json.at("curve_steps").get<std::vector<int64_t>>();
  run.curve_losses = json.at("curve_losses").get<std::vector<double>>();
  for (const auto& loss : json.at("losses")) run.losses.push_back(loss.is_null() ? kNoLoss : loss.get<double>());
  run.tokens_per_second = json.at("tokens_per_second").get<double>();
  if (json.contains("table")) run.table = TableFromJson(json.at("table"));
  if (run.curve_steps.empty() || run.curve_steps.size() != run.curve_losses.size() ||
      run.losses.size() != std::size(kLengthMultiples) || !std::isfinite(run.losses.front()) || run.tokens_per_second <= 0) {
    throw InvalidArgument("run: it is not whole");
  }
  return run;
}

}  // namespace heed::lab
