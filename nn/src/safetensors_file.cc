#include "safetensors_file.h"

#include <algorithm>
#include <bit>

#include <ATen/ATen.h>

namespace heed::nn {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are copied from and to little-endian files as they are");

SafetensorsLimits Capped(SafetensorsLimits limits) {
  limits.header_bytes = std::min(limits.header_bytes, kMaxHeaderBytes);
  limits.tensors = std::min(limits.tensors, kMaxTensors);
  return limits;
}

std::string ReadHeaderText(const InputFile& file, const SafetensorsLimits& limits) {
  if (file.size() < kLengthBytes) file.Fail(file.size(), "the file is too short for a safetensors header");
  uint64_t length = 0;
  file.Read(0, kLengthBytes, &length);
  if (length > static_cast<uint64_t>(limits.header_bytes)) {
    file.Fail(0, "the header claims " + std::to_string(length) + " bytes, more than the limit of " +
                     std::to_string(limits.header_bytes));
  }
  if (length > static_cast<uint64_t>(file.size() - kLengthBytes)) {
    file.Fail(0, "the header claims " + std::to_string(length) + " bytes, the file holds " +
                     std::to_string(file.size() - kLengthBytes) + " more");
  }
  std::string text(length, '\0');
  file.Read(kLengthBytes, static_cast<int64_t>(length), text.data());
  return text;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path, const SafetensorsLimits& limits, int64_t most_bytes)
    : file_(path, most_bytes) {
  const SafetensorsLimits capped = Capped(limits);
  const std::string text = ReadHeaderText(file_, capped);
  data_offset_ = kLengthBytes + static_cast<int64_t>(text.size());
  header_ = ParseSafetensorsHeader(text, file_.size() - data_offset_, path, capped);
}

at::Tensor SafetensorsFile::Read(const SafetensorsEntry& entry) const {
  const int64_t bytes = entry.end - entry.begin;
  at::Tensor tensor;
  try {
    tensor = at::empty(entry.shape, at::TensorOptions().dtype(*entry.type->dtype));
  } catch (const c10::Error&) {
    file_.Fail(entry.described_at, "no memory for the " + std::to_string(bytes) + " bytes of tensor " + QuotedName(entry.name));
  }
  file_.Read(data_offset_ + entry.begin, bytes, tensor.mutable_data_ptr());
  if (entry.type->dtype == at::ScalarType::Bool) {
    // Any other byte would be a bool that is neither true nor false.
    const auto* first = static_cast<const uint8_t*>(tensor.const_data_ptr());
    const auto* wrong = std::find_if(first, first + bytes, [](uint8_t byte) { return byte > 1; });
    if (wrong != first + bytes) {
      file_.Fail(data_offset_ + entry.begin + (wrong - first),
                 "tensor " + QuotedName(entry.name) + " of type BOOL holds another byte than 0 and 1");
    }
  }
  return tensor;
}

}  // namespace heed::nn
