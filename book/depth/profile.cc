#include "book/depth/profile.h"

#include <cmath>
#include <utility>

#include <ATen/ATen.h>

#include "heed/error.h"
#include "lab/training/interrupt.h"

namespace heed::lab {
namespace {

// Statistics of every layer's attention, for as long as it lives.
class Observation {
 public:
  Observation(StackModelImpl& model, StackProfile& profile) : model_(model) {
    for (std::size_t l = 0; l < model.layers.size(); ++l) {
      model.layers[l]->attention->observer = [layer = &profile.layers[l + 1]](const at::Tensor& query, const at::Tensor& key,
                                                                              const at::Tensor& value,
                                                                              const nn::AttentionOptions& call) {
        if (Interrupted()) throw Interruption("interrupted while a stack was measured");
        Record(query, key, value, call, *layer);
      };
    }
  }
  ~Observation() {
    for (StackLayer& layer : model_.layers) layer->attention->observer = nullptr;
  }
  Observation(const Observation&) = delete;
  Observation& operator=(const Observation&) = delete;

 private:
  static void Record(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const nn::AttentionOptions& call,
                     LayerProfile& layer) {
    const at::NoGradGuard no_grad;
    const auto wanted = nn::AttentionOptions(call).return_statistics(true);
    const at::Tensor statistics = nn::attention(query, key, value, wanted).statistics;  // [3, batch, heads, steps]
    const int64_t steps = query.size(2);
    double even = 0;  // the mean entropy of even weights
    for (int64_t i = 0; i < steps; ++i) {
      const double keys = static_cast<double>(call.causal() == Causal::kNone ? steps : i + 1);
      even += std::log(keys) / static_cast<double>(steps);
    }
    const at::Tensor means = statistics.to(at::kDouble).mean(at::IntArrayRef{1, 3});  // [3, heads]
    for (int64_t head = 0; head < means.size(1); ++head) {
      layer.entropy.push_back(even > 0 ? means[0][head].item<double>() / even : 1.0);
      layer.largest_weight.push_back(means[1][head].item<double>());
    }
  }

  StackModelImpl& model_;
};

double NormOfGradients(const std::vector<at::Tensor>& tensors) {
  double squares = 0;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.grad().defined()) squares += tensor.grad().square().sum().item<double>();
  }
  return std::sqrt(squares);
}

// The gradient of the loss with respect to every state, and to the parameters of one layer at a time. Leaves none behind.
void RecordGradients(StackModelImpl& model, const at::Tensor& loss, const std::vector<at::Tensor>& states,
                     StackProfile& profile) {
  model.zero_grad();
  for (const at::Tensor& state : states) state.retain_grad();
  loss.backward();
  profile.layers.front().state_gradient = NormOfGradients({states.front()});
  for (std::size_t l = 1; l < states.size(); ++l) {
    const StackLayer& layer = model.layers[l - 1];
    profile.layers[l].state_gradient = NormOfGradients({states[l]});
    profile.layers[l].parameter_gradient = NormOfGradients(layer->parameters());
    profile.layers[l].query_key_gradient = NormOfGradients({layer->attention->W_q->weight, layer->attention->W_k->weight});
  }
  model.zero_grad();
}

std::vector<double> NumbersFromJson(const nlohmann::ordered_json& json) {
  std::vector<double> values;
  for (const auto& value : json) values.push_back(NumberFromJson(value));
  return values;
}

// Calls visit(name, field) for every number of a layer.
template <class Layer, class Visit>
void VisitNumbers(Layer& layer, Visit visit) {
  visit("distance_to_equal_rows", layer.distance_to_equal_rows);
  visit("distance_to_rank_one", layer.distance_to_rank_one);
  visit("size", layer.size);
  visit("state_gradient", layer.state_gradient);
  visit("parameter_gradient", layer.parameter_gradient);
  visit("query_key_gradient", layer.query_key_gradient);
}

}  // namespace

double DistanceToEqualRows(const at::Tensor& X) {
  const at::Tensor rest = (X - X.mean(1, /*keepdim=*/true)).square().sum(at::IntArrayRef{1, 2}).sqrt();
  return (rest / X.square().sum(at::IntArrayRef{1, 2}).sqrt()).nan_to_num(0.0).mean().item<double>();
}

double DistanceToRankOne(const at::Tensor& X) {
  const at::Tensor squares = at::linalg_svdvals(X).square();  // [windows, min(steps, width)], the largest first
  const at::Tensor rest = squares.narrow(1, 1, squares.size(1) - 1).sum(1);
  return (rest / squares.sum(1)).sqrt().nan_to_num(0.0).mean().item<double>();
}

StackProfile Profile(StackModel& model, const Batch& batch) {
  const bool training = model->is_training();
  const at::ScalarType type = model->head->weight.scalar_type();
  model->to(at::kDouble);
  model->eval();
  StackProfile profile;
  profile.layers.resize(model->layers.size() + 1);
  std::vector<at::Tensor> states;
  at::Tensor loss;
  {
    const Observation observation(*model, profile);
    loss = model->Loss(batch, &states);
  }
  profile.loss = loss.item<double>();
  RecordGradients(*model, loss, states, profile);
  const at::NoGradGuard no_grad;
  for (std::size_t l = 0; l < states.size(); ++l) {
    const at::Tensor& X = states[l];
    const bool finite = X.isfinite().all().item<bool>();
    profile.layers[l].distance_to_equal_rows = finite ? DistanceToEqualRows(X) : NAN;
    profile.layers[l].distance_to_rank_one = finite ? DistanceToRankOne(X) : NAN;
    profile.layers[l].size = std::sqrt(X.square().mean().item<double>());
  }
  model->to(type);
  model->train(training);
  return profile;
}

double NumberFromJson(const nlohmann::ordered_json& json) {
  const double value = json.is_null() ? NAN : json.get<double>();
  return std::isfinite(value) ? value : NAN;
}

nlohmann::ordered_json ToJson(const StackProfile& profile) {
  nlohmann::ordered_json json = {{"loss", profile.loss}, {"layers", nlohmann::ordered_json::array()}};
  for (const LayerProfile& layer : profile.layers) {
    nlohmann::ordered_json entry;
    VisitNumbers(layer, [&entry](const char* name, double value) { entry[name] = value; });
    entry["entropy"] = layer.entropy;
    entry["largest_weight"] = layer.largest_weight;
    json["layers"].push_back(std::move(entry));
  }
  return json;
}

StackProfile ProfileFromJson(const nlohmann::ordered_json& json, int64_t layers, int64_t heads) {
  StackProfile profile;
  profile.loss = NumberFromJson(json.at("loss"));
  for (const auto& entry : json.at("layers")) {
    LayerProfile layer;
    VisitNumbers(layer, [&entry](const char* name, double& value) { value = NumberFromJson(entry.at(name)); });
    layer.entropy = NumbersFromJson(entry.at("entropy"));
    layer.largest_weight = NumbersFromJson(entry.at("largest_weight"));
    const std::size_t expected = profile.layers.empty() ? 0 : static_cast<std::size_t>(heads);
    if (layer.entropy.size() != expected || layer.largest_weight.size() != expected) {
      throw InvalidArgument("profile: incomplete");
    }
    profile.layers.push_back(std::move(layer));
  }
  if (profile.layers.size() != static_cast<std::size_t>(layers) + 1) throw InvalidArgument("profile: incomplete");
  return profile;
}

}  // namespace heed::lab
