#include "safetensors_tensor.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include <ATen/ATen.h>

namespace heed::nn {
namespace {

constexpr std::pair<ElementType, at::ScalarType> kTypes[] = {
    {ElementType::kFloat64, at::kDouble}, {ElementType::kFloat32, at::kFloat},     {ElementType::kFloat16, at::kHalf},
    {ElementType::kInt64, at::kLong},     {ElementType::kBFloat16, at::kBFloat16}, {ElementType::kInt32, at::kInt},
    {ElementType::kInt16, at::kShort},    {ElementType::kInt8, at::kChar},         {ElementType::kUint8, at::kByte},
    {ElementType::kBool, at::kBool},
};

}  // namespace

at::ScalarType ScalarTypeOf(ElementType element) {
  return std::find_if(std::begin(kTypes), std::end(kTypes), [&](const auto& pair) { return pair.first == element; })->second;
}

std::optional<ElementType> ElementTypeOf(at::ScalarType type) {
  for (const auto& [element, known] : kTypes) {
    if (known == type) return element;
  }
  return std::nullopt;
}

at::Tensor ReadTensor(const SafetensorsFile& file, const SafetensorsEntry& entry) {
  at::Tensor tensor;
  try {
    tensor = at::empty(entry.shape, at::TensorOptions().dtype(ScalarTypeOf(*entry.type->element)));
  } catch (const c10::Error&) {
    file.Fail(entry,
              "no memory for the " + std::to_string(entry.end - entry.begin) + " bytes of tensor " + QuotedName(entry.name));
  }
  file.Read(entry, tensor.mutable_data_ptr());
  return tensor;
}

}  // namespace heed::nn
