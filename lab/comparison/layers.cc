#include "lab/comparison/layers.h"

namespace heed::lab {

std::string NameOf(LayerKind kind) {
  switch (kind) {
    case LayerKind::kCentredConvolution:
      return "convolution (centred)";
    case LayerKind::kCausalConvolution:
      return "convolution (causal)";
    case LayerKind::kRecurrence:
      return "recurrence";
    case LayerKind::kSelfAttention:
      break;
  }
  return "self-attention";
}

std::vector<int64_t> WeightSizes(const LayerShape& layer) {
  const int64_t square = layer.width * layer.width;
  switch (layer.kind) {
    case LayerKind::kCentredConvolution:
    case LayerKind::kCausalConvolution:
      return {square * layer.kernel};
    case LayerKind::kRecurrence:
      return {square, square};
    case LayerKind::kSelfAttention:
      break;
  }
  return {square, square, square, square};
}

}  // namespace heed::lab
