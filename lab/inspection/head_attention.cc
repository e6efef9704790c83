#include "lab/inspection/head_attention.h"

#include <algorithm>
#include <numeric>
#include <string>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>
#include <fmt/core.h>

#include "heed/error.h"
#include "heed/nn/structured_attention.h"
#include "lab/training/interrupt.h"

namespace heed::lab {
namespace {

constexpr int64_t kMatrixBytes = int64_t{64} << 20;  // of weights at a time, unless a single head has more

void Complete(const char* name, int64_t count, std::vector<int64_t>& wanted) {
  if (wanted.empty()) {
    wanted.resize(count);
    std::iota(wanted.begin(), wanted.end(), 0);
  }
  std::sort(wanted.begin(), wanted.end());
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  for (const int64_t index : wanted) {
    if (index < 0 || index >= count) {
      throw InvalidArgument(fmt::format("{}: {} is outside 0..{}, those of the model", name, index, count - 1));
    }
  }
}

// That of a layer of attention, else null.
nn::MultiHeadAttentionImpl::Observer* ObserverOf(torch::nn::Module& module) {
  if (auto* heads = module.as<nn::MultiHeadAttentionImpl>()) return &heads->observer;
  auto* rows = module.as<nn::StructuredAttentionImpl>();
  return rows == nullptr ? nullptr : &rows->observer;
}

// Observers on the attention of every layer, for as long as it lives.
class Observation {
 public:
  using Visit = std::function<void(int64_t layer, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                   const nn::AttentionOptions& call)>;
  Observation(torch::nn::Module& model, const Visit& visit) {
    for (const auto& module : model.modules(/*include_self=*/false)) {
      nn::MultiHeadAttentionImpl::Observer* observer = ObserverOf(*module);
      if (observer == nullptr) continue;
      const auto layer = static_cast<int64_t>(layers_.size());
      *observer = [layer, visit](const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                 const nn::AttentionOptions& call) { visit(layer, query, key, value, call); };
      layers_.push_back(observer);
    }
  }
  ~Observation() {
    for (nn::MultiHeadAttentionImpl::Observer* observer : layers_) *observer = nullptr;
  }
  Observation(const Observation&) = delete;
  Observation& operator=(const Observation&) = delete;

 private:
  std::vector<nn::MultiHeadAttentionImpl::Observer*> layers_;
};

}  // namespace

HeadSelection SelectHeads(const Reading& reading, HeadSelection wanted) {
  const auto attends = [](const auto& module) { return ObserverOf(*module) != nullptr; };
  if (std::ranges::none_of(reading.model->modules(/*include_self=*/false), attends)) {
    throw InvalidArgument("encoder: the model's is '" + reading.encoder +
                          "'; the weights shown are those of attention, as --encoder attention or self-attentive has");
  }
  Complete("layers", reading.layers, wanted.layers);
  Complete("heads", reading.heads, wanted.heads);
  return wanted;
}

void ForEachHead(const Reading& reading, const HeadSelection& selection,
                 const std::function<void(const HeadAttention&)>& visit) {
  const at::NoGradGuard no_grad;
  const Observation observation(*reading.model, [&](int64_t layer, const at::Tensor& query, const at::Tensor& key,
                                                    const at::Tensor& value, const nn::AttentionOptions& call) {
    if (!std::binary_search(selection.layers.begin(), selection.layers.end(), layer)) return;
    const int64_t group = std::max<int64_t>(1, kMatrixBytes / (4 * query.size(2) * query.size(2)));
    for (const at::Tensor& heads : at::tensor(selection.heads, at::kLong).split(group)) {
      const auto wanted = nn::AttentionOptions(call).return_weights_of(heads).return_statistics(true);
      const nn::AttentionOutput seen = nn::attention(query, key, value, wanted);
      const at::Tensor statistics = seen.statistics.select(1, 0);  // [3, heads of the model, tokens]
      for (int64_t i = 0; i < heads.size(0); ++i) {
        if (Interrupted()) throw Interruption("interrupted during inspection");
        const auto head = heads[i].item<int64_t>();
        visit({layer, head, seen.weights[0][i], statistics[0][head], statistics[1][head], statistics[2][head]});
      }
    }
  });
  reading.run();
}

}  // namespace heed::lab
