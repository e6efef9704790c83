// Tensors out of safetensors files.
#ifndef HEED_NN_SRC_SAFETENSORS_TENSOR_H_
#define HEED_NN_SRC_SAFETENSORS_TENSOR_H_

#include <optional>

#include <ATen/core/Tensor.h>

#include "heed/safetensors.h"

namespace heed::nn {

at::ScalarType ScalarTypeOf(ElementType element);
// Nothing for types that heed does not store.
std::optional<ElementType> ElementTypeOf(at::ScalarType type);

// The tensor of an entry whose type heed reads: contiguous, owning, on the CPU. Throws FileError.
at::Tensor ReadTensor(const SafetensorsFile& file, const SafetensorsEntry& entry);

}  // namespace heed::nn

#endif  // HEED_NN_SRC_SAFETENSORS_TENSOR_H_
