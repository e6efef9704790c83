#include "kept_network.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "heed/error.h"
#include "heed/safetensors.h"

namespace heed {

bool HoldsWeightsOf(const EncoderOptions& encoder, int64_t ends, const std::string& path) {
  double stored = 0;
  for (const auto& [name, tensor] : OpenTensors(path)) {
    double count = 1;
    for (const int64_t extent : tensor.entry->shape) count *= static_cast<double>(extent);
    stored += count;
  }
  const auto width = static_cast<double>(encoder.width), ffn_width = static_cast<double>(encoder.ffn_width);
  double least = static_cast<double>(encoder.layers) * width * (width + 2 * ffn_width) + width * static_cast<double>(ends);
  if (encoder.position == "learned") least += width * static_cast<double>(encoder.max_len);
  return least <= stored;
}

void LoadFiniteWeights(Parameters parameters, const std::string& path) {
  for (Parameter& parameter : parameters.list) {
    const std::string fault = path + ": tensor '" + parameter.name + "' holds numbers that are not finite";
    parameter.assign = [fault, assign = parameter.assign](std::span<const float> values) {
      if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) throw FileError(fault);
      assign(values);
    };
  }
  LoadWeights(parameters, path);
}

}  // namespace heed
