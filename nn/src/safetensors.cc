// Format: https://github.com/huggingface/safetensors (README, "Format"): eight bytes of length, a JSON header, the data.
#include "heed/nn/safetensors.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include "heed/error.h"
#include "heed/replacement_file.h"
#include "heed/safetensors.h"
#include "refuse.h"
#include "safetensors_tensor.h"

namespace heed::nn {
namespace {

constexpr int64_t kHeaderAlignment = 8;  // bytes

constexpr std::pair<ElementType, at::ScalarType> kTypes[] = {
    {ElementType::kFloat64, at::kDouble}, {ElementType::kFloat32, at::kFloat},     {ElementType::kFloat16, at::kHalf},
    {ElementType::kInt64, at::kLong},     {ElementType::kBFloat16, at::kBFloat16}, {ElementType::kInt32, at::kInt},
    {ElementType::kInt16, at::kShort},    {ElementType::kInt8, at::kChar},         {ElementType::kUint8, at::kByte},
    {ElementType::kBool, at::kBool},
};

// Of this machine; no limit where the system does not tell.
int64_t MemoryBytes() {
  const int64_t pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? pages * page : std::numeric_limits<int64_t>::max();
}

void CheckWritable(const std::string& name, const at::Tensor& tensor) {
  const std::string argument = "tensors[" + QuotedName(name) + "]";
  if (!IsTensorName(name) || name == kMetadataKey) {
    Refuse(argument, ": a name of 1 to 1024 bytes without NUL, other than __metadata__, is expected");
  }
  if (!tensor.defined() || tensor.layout() != at::kStrided || tensor.is_meta() || tensor.is_nested() ||
      !ElementTypeOf(tensor.scalar_type())) {
    Refuse(argument,
           ": a dense tensor with numbers of float64, float32, float16, bfloat16, int64, int32, int16, int8, uint8 "
           "or bool is expected");
  }
  if (tensor.dim() > SafetensorsLimits{}.rank) Refuse(argument, ": at most 8 dimensions are expected");
}

std::string HeaderText(const std::map<std::string, at::Tensor>& tensors, const std::map<std::string, std::string>& metadata) {
  nlohmann::json header = nlohmann::json::object();
  if (!metadata.empty()) header[kMetadataKey] = metadata;
  int64_t end = 0;
  for (const auto& [name, tensor] : tensors) {
    CheckWritable(name, tensor);
    const int64_t begin = end;
    end += static_cast<int64_t>(tensor.nbytes());
    header[name] = {{"dtype", SafetensorsName(*ElementTypeOf(tensor.scalar_type()))},
                    {"shape", std::vector<int64_t>(tensor.sizes().begin(), tensor.sizes().end())},
                    {"data_offsets", {begin, end}}};
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::type_error&) {
    throw InvalidArgument("tensors, metadata: names and metadata in UTF-8 are expected");
  }
  text.append(static_cast<std::size_t>(-static_cast<int64_t>(text.size()) & (kHeaderAlignment - 1)), ' ');
  if (static_cast<int64_t>(text.size()) > kMaxHeaderBytes) {
    throw InvalidArgument("tensors, metadata: names and metadata of at most 100,000,000 bytes are expected");
  }
  return text;
}

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

Safetensors ReadSafetensors(const std::string& path, const SafetensorsLimits& limits) {
  const SafetensorsFile file(path, limits, MemoryBytes());
  Safetensors result;
  result.metadata = file.metadata();
  for (const SafetensorsEntry& entry : file.entries()) {
    if (entry.type->element) {
      result.tensors.emplace(entry.name, ReadTensor(file, entry));
    } else {
      result.unread.emplace(entry.name, entry.type->name);
    }
  }
  return result;
}

void WriteSafetensors(const std::string& path, const std::map<std::string, at::Tensor>& tensors,
                      const std::map<std::string, std::string>& metadata) {
  const std::string text = HeaderText(tensors, metadata);
  const uint64_t length = text.size();
  ReplacementFile file(path);
  file.Write(&length, sizeof(length));
  file.Write(text.data(), text.size());
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor dense = tensor.detach().cpu().resolve_neg().contiguous();
    file.Write(dense.const_data_ptr(), dense.nbytes());
  }
  file.Commit();
}

}  // namespace heed::nn
