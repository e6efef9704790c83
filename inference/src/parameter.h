// Parameters of layers that keep their numbers as they are, or packed.
#ifndef HEED_INFERENCE_SRC_PARAMETER_H_
#define HEED_INFERENCE_SRC_PARAMETER_H_

#include <string>
#include <utility>
#include <vector>

#include "heed/packed_matrix.h"
#include "heed/view.h"
#include "heed/weights.h"

namespace heed {

inline Parameter KeptIn(std::vector<float>& numbers, std::string name, std::vector<int64_t> shape) {
  return {std::move(name), std::move(shape),
          [&numbers](std::span<const float> values) { numbers.assign(values.begin(), values.end()); }};
}

// [rows, columns]
inline Parameter PackedIn(PackedMatrix& matrix, std::string name, int64_t rows, int64_t columns) {
  return {std::move(name), {rows, columns}, [=, &matrix](std::span<const float> values) {
            matrix = PackedMatrix(View<const float, 2>::Contiguous(values.data(), {rows, columns}));
          }};
}

// Absent where there are no numbers.
inline View<const float, 1> BiasOf(const std::vector<float>& bias) {
  return bias.empty() ? View<const float, 1>() : View<const float, 1>::Contiguous(bias.data(), {std::ssize(bias)});
}

}  // namespace heed

#endif  // HEED_INFERENCE_SRC_PARAMETER_H_
