#include "lab/series/kept_model.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/core.h>

#include "heed/error.h"
#include "heed/nn/safetensors.h"
#include "heed/safetensors.h"
#include "heed/series_model.h"
#include "lab/data/view.h"
#include "lab/options/fields.h"
#include "lab/report/file.h"
#include "lab/report/json.h"
#include "lab/report/printable.h"
#include "lab/series/examples.h"
#include "lab/series/forecast.h"
#include "lab/training/interrupt.h"
#include "lab/training/trainer.h"

namespace heed::lab {
namespace {

constexpr int64_t kScaleSteps = 1 << 17;  // by which the scales are measured

at::Tensor Unscaled(const at::Tensor& X, int64_t columns) {
  // The window's own first change came before it.
  const at::Tensor changes = X.narrow(2, 0, columns), behind = changes.narrow(1, 1, X.size(1) - 1);
  const at::Tensor levels = at::cat({at::zeros_like(changes.narrow(1, 0, 1)), behind.cumsum(1)}, 1);
  const at::Tensor steps = at::arange(1, X.size(1) + 1, X.options()).unsqueeze(1);
  return levels - levels.cumsum(1) / steps;
}

// Of heed/past_forecasts.h.
template <class Past>
Past PastMethodIn(const KeptMethod& method) {
  Past past;
  VisitFields(past, [&](const char* name, auto& field) { method.settings.at(name).get_to(field); });
  return past;
}

SeriesAnswers SimpleAnswers(const KeptMethod& method, const SeriesForm& form, const SeriesData& data) {
  std::vector<double> shares;
  if (form.Classifies()) method.settings.at("shares").get_to(shares);
  return [&form, &data, row = at::tensor(shares, at::kDouble)](const std::vector<SeriesWindow>& windows) {
    const int64_t scored = form.Answers(windows);
    if (form.Classifies()) return row.expand({scored, row.size(0)}).contiguous();
    at::Tensor answers = at::full({scored, form.outputs()}, form.target_mean, at::kDouble);
    for (int64_t i = 0; form.Forecasts() && i < scored; ++i)
      answers[i].fill_(data.sequences[windows[i].sequence].targets[windows[i].end() - 1]);
    return answers;
  };
}

// A file without 'steps' has summaries instead of steps.
RowOf RowOfIn(const KeptMethod& method) {
  const bool summaries = method.settings.at("summaries"), steps = method.settings.value("steps", !summaries);
  return !summaries ? RowOf::kSteps : steps ? RowOf::kBoth : RowOf::kSummary;
}

// Batch by batch: `answer` appends what it makes of one.
SeriesAnswers InBatches(const SeriesForm& form, const SeriesData& data,
                        std::function<void(const SeriesBatch& batch, std::vector<at::Tensor>& answers)> answer) {
  return [&form, &data, answer = std::move(answer)](const std::vector<SeriesWindow>& windows) {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> answers;
    form.ForEach(data, windows, Targets::kNone, [&](const SeriesBatch& batch) { answer(batch, answers); });
    return InOwnUnits(form, data, windows, at::cat(answers));
  };
}

// Of data in which no sequence is long enough for the method. A shorter one beside a long one is forecast as in a study:
// without a season, or with a flat curve.
[[noreturn]] void TooShort(const SeriesData& data, const std::string& needs) {
  throw FileError(fmt::format("{}: its longest sequence has {} steps; {}", data.name, data.Longest(), needs));
}

void RequireLogarithms(const SeriesData& data) {
  for (const SeriesSequence& sequence : data.sequences) {
    for (int64_t step = 0; step < sequence.steps; ++step) {
      if (sequence.targets[step] > 0) continue;
      throw FileError(data.Place(sequence, step, data.target) +
                      fmt::format("{} has no logarithm, and the method was fitted to logarithms", sequence.targets[step]));
    }
  }
}

Forecaster ForecasterOf(const KeptMethod& method, const SeriesForm& form, const SeriesData& data,
                        const std::vector<SeriesWindow>& past) {
  if (method.kind == "season") {
    const int64_t season = PastMethodIn<RepeatedSeason>(method).season;
    return [&data, season, foretell = LastSeason(data, season)](const SeriesWindow& window, std::vector<double>& values) {
      if (window.end() < season) {
        throw FileError(fmt::format("{}: sequence {} has {} steps; the last season needs {}", data.name,
                                    ShownName(data.sequences[window.sequence].id), window.end(), season));
      }
      foretell(window, values);
    };
  }
  int64_t longest = 0;
  double seconds = 0;
  for (const SeriesWindow& part : past) {
    const std::vector<double>& times = data.sequences[part.sequence].times;
    longest = std::max(longest, part.steps);
    if (part.steps > 0 && !times.empty()) seconds = std::max(seconds, times[part.steps - 1] - times[0]);
  }
  if (method.kind == "smoothing") {
    const auto smoothing = PastMethodIn<Smoothing>(method);
    if (smoothing.season > 1 && longest < 2 * smoothing.season)
      TooShort(data, fmt::format("Holt-Winters with a season of {} needs {}", smoothing.season, 2 * smoothing.season));
    if (smoothing.logs) RequireLogarithms(data);
    return SmoothingForecaster(data, form.target_scale, smoothing, past);
  }
  const auto calendar = PastMethodIn<Calendar>(method);
  if (const std::string* const unseen = PeriodUnseen(calendar, seconds))
    TooShort(data, fmt::format("its calendar needs {} times a {}", kPeriodsSeen, *unseen));
  if (calendar.logs) RequireLogarithms(data);
  return CalendarForecaster(data, form.target_scale, form.outputs(), calendar, past);
}

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

at::Tensor SeriesNetwork::Answers(const SeriesForm& form, const SeriesBatch& batch) {
  const bool padded = std::ranges::any_of(batch.lengths, [&](int64_t n) { return n != batch.steps; });
  const at::Tensor X = View(batch.features, {batch.rows, batch.steps, form.width()});
  const at::Tensor lengths = padded ? View(batch.lengths, {batch.rows}) : at::Tensor();
  const at::Tensor times = form.has_times ? View(batch.times, {batch.rows, batch.steps}) : at::Tensor();
  at::Tensor Y = network_->forward(scales_.defined() ? WithLevels(X, scales_) : X, lengths, times);
  if (!form.each_step) return Y;
  return Y.flatten(0, 1).index_select(0, View(batch.scored, {std::ssize(batch.scored)}));
}

at::Tensor LevelScales(const SeriesBatches& batches) {
  const int64_t columns = std::ssize(batches.data().features);
  at::Tensor squares = at::zeros({columns}, at::kDouble);
  double count = 0;
  batches.ForEach(batches.TrainingWindows(std::max<int64_t>(1, kScaleSteps / batches.form().steps())),
                  [&](const SeriesBatch& batch) {
                    const at::Tensor X = View(batch.features, {batch.rows, batch.steps, batches.form().width()});
                    squares += Unscaled(X, columns).to(at::kDouble).square().sum(at::IntArrayRef{0, 1});
                    count += static_cast<double>(batch.rows * batch.steps);
                  });
  const at::Tensor scales = (squares / count).sqrt();
  return scales.masked_fill(scales.eq(0), 1.0).to(at::kFloat);  // a column that never changes stays 0
}

at::Tensor WithLevels(const at::Tensor& X, const at::Tensor& scales) {
  return at::cat({X, Unscaled(X, scales.size(0)) / scales}, 2);
}

at::Tensor InOwnUnits(const SeriesForm& form, const SeriesData& data, const std::vector<SeriesWindow>& windows,
                      const at::Tensor& answers) {
  if (form.Classifies()) return answers.to(at::kDouble).exp();
  at::Tensor values = answers.to(at::kDouble) * form.target_scale;
  if (!form.Forecasts()) return values + form.target_mean;
  std::vector<double> last;
  last.reserve(windows.size());
  for (const SeriesWindow& window : windows) last.push_back(data.sequences[window.sequence].targets[window.end() - 1]);
  return values + at::tensor(last, at::kDouble).unsqueeze(1);
}

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
  const SeriesForm& form = model.form;
  const KeptMethod& method = model.method;
  if (model.network) {
    return InBatches(form, data,
                     [&form, network = NetworkOf(model)](const SeriesBatch& batch, std::vector<at::Tensor>& answers) {
                       if (Interrupted()) throw Interruption("interrupted during a prediction");
                       const at::Tensor some = network->Answers(form, batch);
                       answers.push_back(form.Classifies() ? at::log_softmax(some.to(at::kDouble), 1) : some);
                     });
  }
  if (method.kind == "simple") return SimpleAnswers(method, form, data);
  if (method.kind == "linear" || method.kind == "neighbours") {
    const SeriesRows rows(form, RowOfIn(method), method.settings.at("lengths_differ"));
    const Method answer = RowMethod(method, form.Classifies() ? form.outputs() : 0);
    return InBatches(form, data, [rows, answer](const SeriesBatch& batch, std::vector<at::Tensor>& answers) {
      ForEachRow(rows, batch, [&](const Examples& some) { answers.push_back(answer(some.X)); });
    });
  }
  return
      [outputs = form.outputs(), foretell = ForecasterOf(method, form, data, past)](const std::vector<SeriesWindow>& windows) {
        at::Tensor answers = at::empty({std::ssize(windows), outputs}, at::kDouble);
        std::vector<double> values(outputs);
        for (int64_t i = 0; i < std::ssize(windows); ++i) {
          foretell(windows[i], values);
          std::ranges::copy(values, answers.mutable_data_ptr<double>() + i * outputs);
        }
        return answers;
      };
}

}  // namespace heed::lab
