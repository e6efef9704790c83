#include "lab/inspection/inspection.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>
#include <fmt/core.h>

#include "heed/error.h"
#include "heed/nn/structured_attention.h"
#include "lab/training/interrupt.h"

namespace heed::lab {
namespace {

constexpr int64_t kThumbnailSide = 96;

// From the best on. Half a step is 2.9, 5.9 and 12 per cent of a weight.
struct Quality {
  int steps_per_octave;
  int64_t bin;
};
constexpr Quality kQualities[] = {
    {WeightCode::kMostSteps, 1}, {6, 1}, {WeightCode::kMostSteps, 2}, {6, 2}, {6, 4}, {6, 8}, {6, 16}, {3, 32}, {3, 64}};

std::span<const float> Numbers(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

HeadMap MapOf(const HeadAttention& head, const Inspection& inspection) {
  const at::Tensor rounded = head.weights.to(at::kFloat);
  const std::span<const float> weights = Numbers(rounded);
  const auto thumbnail = [&](bool without_first) {
    return EncodeThumbnail(inspection.code, inspection.geometry.tokens, inspection.thumbnail_side, weights, without_first);
  };
  return {head.layer,       head.head,       MeansOf(head),
          thumbnail(false), thumbnail(true), Pack(EncodeMap(inspection.code, inspection.geometry, weights))};
}

// False where the maps outgrow the budget; the rest is then left out.
bool Fill(const Reading& reading, int64_t budget, const std::function<void(int64_t, int64_t)>& on_head,
          Inspection& inspection) {
  const HeadSelection& selection = inspection.selection;
  const auto heads = static_cast<int64_t>(selection.layers.size() * selection.heads.size());
  int64_t bytes = 0;
  inspection.maps.clear();
  ForEachHead(reading, selection, [&](const HeadAttention& head) {
    if (bytes > budget) return;
    inspection.maps.push_back(MapOf(head, inspection));
    const HeadMap& map = inspection.maps.back();
    bytes += static_cast<int64_t>(map.codes.size() + 2 * map.thumbnail.size());  // thumbnails: about, once they are packed
    if (on_head) on_head(static_cast<int64_t>(inspection.maps.size()), heads);
  });
  return bytes <= budget;
}

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

HeadStatistics MeansOf(const HeadAttention& head) {
  const auto mean = [](const at::Tensor& rows) { return rows.mean(at::kDouble).item<double>(); };
  return {mean(head.entropy), mean(head.max_weight), mean(head.mean_distance), mean(head.weights.select(1, 0))};
}

Inspection Inspect(const Reading& reading, const InspectionOptions& options,
                   const std::function<void(int64_t, int64_t)>& on_head) {
  Inspection inspection{reading,
                        SelectHeads(reading, options.selection),
                        WeightCode(kQualities[0].steps_per_octave),
                        MapGeometry{reading.tokens, 1, reading.causal},
                        std::min(reading.tokens, kThumbnailSide),
                        {}};
  for (const Quality& quality : kQualities) {
    inspection.code = WeightCode(quality.steps_per_octave);
    inspection.geometry.bin = quality.bin;
    if (Fill(reading, options.budget, on_head, inspection)) return inspection;
  }
  throw InvalidArgument(fmt::format(
      "'{}': the maps of {} {} in {} heads do not fit a page; choose fewer with layers, heads or tokens", reading.name,
      reading.tokens, reading.unit, inspection.selection.layers.size() * inspection.selection.heads.size()));
}

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
