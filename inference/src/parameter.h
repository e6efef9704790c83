// Parameters of layers that keep their numbers as they are.
#ifndef HEED_INFERENCE_SRC_PARAMETER_H_
#define HEED_INFERENCE_SRC_PARAMETER_H_

#include <string>
#include <utility>
#include <vector>

#include "heed/weights.h"

namespace heed {

inline Parameter KeptIn(std::vector<float>& numbers, std::string name, std::vector<int64_t> shape) {
  return {std::move(name), std::move(shape),
          [&numbers](std::span<const float> values) { numbers.assign(values.begin(), values.end()); }};
}

}  // namespace heed

#endif  // HEED_INFERENCE_SRC_PARAMETER_H_
