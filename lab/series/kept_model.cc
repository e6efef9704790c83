#include "lab/series/kept_model.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/core.h>

#include "heed/error.h"
#include "heed/nn/safetensors.h"
#include "heed/series_model.h"
#include "lab/data/view.h"
#include "lab/options/fields.h"
#include "lab/report/file.h"
#include "lab/report/json.h"
#include "lab/report/printable.h"
#include "lab/series/network.h"
#include "lab/training/interrupt.h"
#include "lab/training/trainer.h"

namespace heed::lab {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kFormat = 1;
constexpr double kShare = 0.8;             // of the true values, which an interval holds
constexpr std::size_t kMostShown = 500;    // bytes of what a value is said to be
constexpr const char* kLevels = "levels";  // the array of a forecast's LevelScales

// The quantile at `share` of so many sorted numbers that one more of their kind exceeds with probability 1 - share.
double Quantile(const at::Tensor& sorted, double share) {
  const auto count = static_cast<double>(sorted.size(0));
  const double place = share < 0.5 ? std::floor((count + 1) * share) - 1 : std::ceil((count + 1) * share) - 1;
  return sorted[static_cast<int64_t>(std::clamp(place, 0.0, count - 1))].item<double>();
}

}  // namespace

std::shared_ptr<SeriesNetwork> NetworkOf(const KeptModel& model) {
  std::map<std::string, at::Tensor> weights = model.method.arrays;
  const auto levels = weights.extract(kLevels);
  auto network =
      std::make_shared<SeriesNetwork>(*model.network, model.form.Forecasts() ? levels.mapped().to(at::kFloat) : at::Tensor());
  CopyTensors(weights, NamedParameters(network->module()), "model.safetensors");
  network->module().eval();
  return network;
}

void Calibrate(KeptModel& model, const SeriesBatches& batches) {
  model.low.clear(), model.high.clear();
  const SeriesForm& form = model.form;
  if (form.Classifies()) return;
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> parts;
  const auto add = [&](const std::vector<SeriesWindow>& windows, const std::vector<SeriesWindow>& past) {
    std::vector<at::Tensor> truths;
    batches.ForEach(windows, [&](const SeriesBatch& batch) {
      truths.push_back(View(batch.values, {std::ssize(batch.scored), form.outputs()}).clone());
    });
    const at::Tensor truth = InOwnUnits(form, batches.data(), windows, at::cat(truths));
    parts.push_back(truth - AnswersOf(model, batches.data(), past)(windows));
  };
  add(batches.validation_windows(), batches.training_steps());
  // Choices were made on the validation part, which flatters what was chosen; and the test part is the latest.
  add(batches.test_windows(), batches.StepsBeforeTest());
  const at::Tensor beside = at::cat(parts);
  for (int64_t i = 0; i < form.outputs(); ++i) {
    const at::Tensor sorted = std::get<0>(beside.select(1, i).sort());
    model.low.push_back(Quantile(sorted, (1 - kShare) / 2)), model.high.push_back(Quantile(sorted, (1 + kShare) / 2));
  }
}

void WriteModel(const KeptModel& model, const std::filesystem::path& folder) {
  Json json = {{"format", kFormat}, {"kind", "table"}, {"name", model.name}, {"form", KeptFields(model.form)}};
  if (model.network) {
    SequenceModelOptions network = *model.network;
    json["network"] = SettingsOf(FieldsOf(network));
  } else {
    json["method"] = {{"kind", model.method.kind}, {"settings", model.method.settings}};
  }
  json["low"] = model.low, json["high"] = model.high;
  json["training"] = model.training, json["reached"] = model.reached;
  MakeFolderOf(folder / "config.json");
  // A folder with config.json is whole: never are there settings beside the weights of another model.
  std::filesystem::remove(folder / "config.json");
  nn::WriteSafetensors((folder / "model.safetensors").string(), model.method.arrays, {{"format", "pt"}});
  WriteFile(folder / "config.json", JsonText(json, 1) + "\n");
}

KeptModel ReadModel(const std::filesystem::path& folder) {
  const std::filesystem::path config = folder / "config.json";
  try {
    const Json json = ParseSettings(ReadFile(config, kMostSettingsBytes));
    int64_t format = 0;
    ReadField(json, "format", format);
    if (format != kFormat) throw FieldError{fmt::format("'format' is {}; this program reads {}", format, kFormat)};
    const SeriesModel checked(folder.string());
    KeptModel model{.name = checked.name(), .form = {checked.form()}, .method = {}};
    model.method.arrays = nn::ReadSafetensors((folder / "model.safetensors").string()).tensors;
    if (json.contains("network")) {
      ReadFields(ObjectIn(json, "network"), FieldsOf(model.network.emplace()));
      NetworkOf(model);
    } else {
      const Json& method = ObjectIn(json, "method");
      ReadField(method, "kind", model.method.kind), model.method.settings = ObjectIn(method, "settings");
    }
    ReadField(json, "low", model.low), ReadField(json, "high", model.high);
    model.training = ObjectIn(json, "training"), model.reached = ObjectIn(json, "reached");
    return model;
  } catch (const FieldError& error) {
    throw FileError(config.string() + ": " + Printable(error.message, kMostShown));
  } catch (const InvalidArgument& error) {
    throw FileError(config.string() + ": " + Printable(error.what(), kMostShown));
  }
}

SeriesAnswers AnswersOf(const KeptModel& model, const SeriesData& data, const std::vector<SeriesWindow>& past) {
  if (!model.network) return AnswersOf(model.method, model.form, data, past);
  return [&model, &data, network = NetworkOf(model)](const std::vector<SeriesWindow>& windows) {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> answers;
    model.form.ForEach(data, windows, Targets::kNone, [&](const SeriesBatch& batch) {
      if (Interrupted()) throw Interruption("interrupted during a prediction");
      const at::Tensor some = network->Answers(model.form, batch);
      answers.push_back(model.form.Classifies() ? at::log_softmax(some.to(at::kDouble), 1) : some);
    });
    return InOwnUnits(model.form, data, windows, at::cat(answers));
  };
}

}  // namespace heed::lab
