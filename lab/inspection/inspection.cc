#include "lab/inspection/inspection.h"

#include <algorithm>
#include <span>
#include <utility>

#include <fmt/core.h>

#include "heed/error.h"
#include "lab/inspection/head_attention.h"

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

}  // namespace heed::lab
