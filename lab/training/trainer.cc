#include "lab/training/trainer.h"

#include <algorithm>
#include <mutex>
#include <sstream>
#include <utility>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <fmt/core.h>
#include <torch/utils.h>
#include <nlohmann/json.hpp>

#include "heed/error.h"
#include "heed/nn/safetensors.h"
#include "lab/report/json.h"
#include "lab/training/data_parallel.h"
#include "lab/training/evaluation.h"
#include "lab/training/fit.h"
#include "lab/training/interrupt.h"
#include "lab/training/ranks.h"

namespace heed::lab {
namespace {

constexpr const char* kModelPrefix = "model.";
constexpr const char* kTorchGenerator = "torch_generator";  // state of PyTorch's default generator, bytes
constexpr const char* kProgress = "progress";               // metadata: counters and the state of the data generator

LanguageModel SeededModel(const TrainOptions& options, const Vocabulary& vocabulary) {
  Validate(options);
  torch::manual_seed(options.seed);
  return LanguageModel(options.model, vocabulary);
}

std::unique_ptr<DataParallel> ParallelOf(Ranks* ranks, const TrainOptions& options, const NamedTensors& parameters) {
  if (ranks == nullptr) return nullptr;
  RequireShared(options.model, ranks->sequence_ranks());
  return std::make_unique<DataParallel>(*ranks, parameters, options.batch, options.model.objective);
}

at::Generator TorchGenerator() { return at::detail::getDefaultCPUGenerator(); }

std::string Describe(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.scalar_type() << " " << tensor.sizes();
  return text.str();
}

// Any encoder has at least one square matrix of the width in each layer, and a learned table has a row for each step.
void RequirePlausible(const RunConfig& config, const nn::Safetensors& weights, const std::string& path) {
  double stored = 0.0;
  for (const auto& [name, tensor] : weights.tensors) stored += static_cast<double>(tensor.numel());
  const ModelOptions& model = config.options.model;
  const double width = static_cast<double>(model.width);
  const double per_layer = width * (width + 2.0 * static_cast<double>(FeedForwardWidth(model)));
  double least = static_cast<double>(model.layers) * per_layer + width * static_cast<double>(config.vocabulary.size());
  if (model.position == "learned") least += width * static_cast<double>(model.context);
  if (least > stored) {
    throw FileError(path + ": it holds fewer weights than the model that config.json beside it describes");
  }
}

}  // namespace

Trainer::Trainer(Corpus corpus, const TrainOptions& options, Ranks* ranks)
    : options_(options),
      corpus_(std::move(corpus)),
      model_(SeededModel(options, corpus_.vocabulary)),
      optimizer_(NamedParameters(*model_), options),
      parallel_(ParallelOf(ranks, options, optimizer_.parameters())),
      windows_{options.model.objective, options.model.context, options.batch, model_->mask_symbol()},
      random_(options.seed) {
  model_->train();
}

void Trainer::Train(int64_t until, const FitHooks& hooks) {
  FitHooks counted = hooks;
  counted.on_step = [&](const FitStep& step) {
    step_ = step.number;
    loss_sum_ += step.loss;
    ++timed_steps_;
    seconds_ += step.seconds;
    if (hooks.on_step) hooks.on_step(step);
  };
  if (parallel_) {
    counted.backward = [this](const at::Tensor& loss, int64_t step) { return parallel_->Backward(loss, step); };
    counted.interrupted = [this] { return parallel_->interrupted(); };
  }
  const auto loss = [this](const Batch& batch) { return model_->Loss(batch, options_.penalty); };
  const auto next_loss = [&] {
    const Batch batch = RandomBatch(corpus_.train, windows_, random_);
    return parallel_ ? parallel_->Loss(batch, loss) : loss(batch);
  };
  Fit(optimizer_, options_.clip, step_, std::min(until, options_.steps), next_loss, counted);
}

bool Trainer::ReportDue() const {
  return step_ > last_report_ && (step_ % options_.eval_every == 0 || step_ == options_.steps);
}

Metrics Trainer::Report() {
  double validation = 0;
  const MeansInUse means(optimizer_);
  try {
    validation = Evaluate(model_, corpus_.validation, 0, {}, parallel_ ? &parallel_->ranks() : nullptr).loss;
  } catch (const Divergence& error) {
    throw Divergence("training diverged at step " + std::to_string(step_) + ": in validation, " + error.what());
  }
  const Metrics metrics{step_, loss_sum_ / static_cast<double>(step_ - last_report_), validation, tokens_per_second()};
  last_report_ = step_;
  loss_sum_ = seconds_ = 0.0;
  timed_steps_ = 0;
  return metrics;
}

double Trainer::tokens_per_second() const {
  return seconds_ > 0.0 ? static_cast<double>(timed_steps_ * options_.batch * options_.model.context) / seconds_ : 0.0;
}

NamedTensors Trainer::StateTensors() const {
  NamedTensors tensors = optimizer_.State();
  for (const auto& [name, parameter] : NamedParameters(*model_)) tensors.emplace_back(kModelPrefix + name, parameter.detach());
  return tensors;
}

nn::Safetensors Trainer::State() const {
  nn::Safetensors state;
  for (const auto& [name, tensor] : StateTensors()) state.tensors.emplace(name, tensor);
  at::Generator generator = TorchGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  state.tensors.emplace(kTorchGenerator, generator.get_state());
  const nlohmann::json progress = {{"step", step_},
                                   {"last_report", last_report_},
                                   {"loss_sum", loss_sum_},
                                   {"loss_count", step_ - last_report_},
                                   {"data_generator", random_.state()}};
  state.metadata.emplace(kProgress, JsonText(progress));
  return state;
}

void Trainer::Share() {
  if (!parallel_) return;
  const char* const what = "rank 0's state of the run";
  nn::Safetensors state = State();
  for (const auto& [name, tensor] : state.tensors) TakeFromFirst(parallel_->ranks(), tensor, what);
  std::string& progress = state.metadata.at(kProgress);
  progress = parallel_->ranks().FromFirst(progress, what);
  Restore(state, what);
}

void Trainer::Restore(const nn::Safetensors& state, const std::string& path) {
  std::map<std::string, at::Tensor> tensors = state.tensors;
  const auto generator_state = tensors.extract(kTorchGenerator);
  const auto progress_text = state.metadata.find(kProgress);
  if (generator_state.empty() || progress_text == state.metadata.end()) {
    throw FileError(path + ": it is not a training checkpoint: the state of the run is missing");
  }
  CopyTensors(tensors, StateTensors(), path);
  int64_t loss_count = 0;
  try {
    at::Generator generator = TorchGenerator();
    const std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_state(generator_state.mapped());
    const nlohmann::json progress = nlohmann::json::parse(progress_text->second);
    step_ = progress.at("step").get<int64_t>();
    last_report_ = progress.at("last_report").get<int64_t>();
    loss_sum_ = progress.at("loss_sum").get<double>();
    loss_count = progress.at("loss_count").get<int64_t>();
    random_ = Random(progress.at("data_generator").get<Random::State>());
  } catch (const nlohmann::json::exception& error) {
    throw FileError(path + ": the state of the run is malformed: " + error.what());
  } catch (const c10::Error& error) {
    throw FileError(path + ": the state of the generator is malformed: " + error.what_without_backtrace());
  }
  if (step_ < 0 || step_ > options_.steps || last_report_ < 0 || last_report_ > step_ || loss_count != step_ - last_report_) {
    throw FileError(path + ": the state of the run contradicts itself: step " + std::to_string(step_) + " of " +
                    std::to_string(options_.steps) + ", last report at " + std::to_string(last_report_));
  }
}

void CopyTensors(const std::map<std::string, at::Tensor>& from, const NamedTensors& to, const std::string& path) {
  for (const auto& [name, target] : to) {
    const auto source = from.find(name);
    if (source == from.end()) throw FileError(fmt::format("{}: tensor '{}' is missing", path, name));
    if (source->second.sizes() != target.sizes() || source->second.scalar_type() != target.scalar_type()) {
      throw FileError(
          fmt::format("{}: tensor '{}' is {}; the model needs {}", path, name, Describe(source->second), Describe(target)));
    }
  }
  if (from.size() > to.size()) {
    std::map<std::string, at::Tensor> left = from;
    for (const auto& [name, target] : to) left.erase(name);
    throw FileError(path + ": tensor '" + left.begin()->first + "' is unknown to the model");
  }
  const at::NoGradGuard no_grad;
  for (const auto& [name, target] : to) target.copy_(from.at(name));
}

void SaveCheckpoint(const RunFolder& folder, Trainer& trainer) {
  const nn::Safetensors state = trainer.State();
  RequireFinite("checkpoint of step " + std::to_string(trainer.step()),
                NamedTensors(state.tensors.begin(), state.tensors.end()));
  nn::WriteSafetensors(folder.checkpoint().string(), state.tensors, state.metadata);
  std::map<std::string, at::Tensor> weights;
  const MeansInUse means(trainer.optimizer());
  for (const auto& parameter : trainer.model()->named_parameters()) {
    weights.emplace(parameter.key(), parameter.value().detach());
  }
  nn::WriteSafetensors(folder.model().string(), weights, {{"format", "pt"}, {"step", std::to_string(trainer.step())}});
}

Trainer LoadTrainer(const RunFolder& folder, const RunConfig& config, Corpus corpus, Ranks* ranks) {
  const char* const what = "rank 0, which reads the checkpoint";
  const std::string path = folder.checkpoint().string();
  nn::Safetensors state;
  const auto read = [&] {
    state = nn::ReadSafetensors(path);
    RequirePlausible(config, state, path);
  };
  OnFirst(ranks, read, what);
  Trainer trainer(std::move(corpus), config.options, ranks);
  OnFirst(
      ranks, [&] { trainer.Restore(state, path); }, what);
  trainer.Share();
  return trainer;
}

LanguageModel LoadModel(const RunFolder& folder, nn::LengthPolicy beyond) {
  const RunConfig config = folder.ReadConfig();
  const std::string path = folder.model().string();
  const nn::Safetensors weights = nn::ReadSafetensors(path);
  RequirePlausible(config, weights, path);
  LanguageModel model(config.options.model, config.vocabulary, beyond);
  CopyTensors(weights.tensors, NamedParameters(*model), path);
  model->eval();
  return model;
}

}  // namespace heed::lab
