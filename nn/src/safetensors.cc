// Format: https://github.com/huggingface/safetensors (README, "Format"): eight bytes of length, a JSON header, the data.
#include "heed/nn/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <system_error>

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include "heed/error.h"
#include "replacement_file.h"
#include "safetensors_header.h"

namespace heed::nn {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are copied from and to little-endian files as they are");

constexpr int64_t kMaxRead = int64_t{1} << 30;  // Linux moves at most 2 GiB - 4 KiB in one call
constexpr int64_t kHeaderAlignment = 8;         // bytes

// A regular file, read at explicit offsets. Never waits: a FIFO or device is refused, not opened for reading.
class InputFile {
 public:
  explicit InputFile(const std::string& path) : path_(path) {
    descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor_ < 0) throw FileError("cannot open '" + path + "': " + std::generic_category().message(errno));
    struct stat status {};
    const bool known = ::fstat(descriptor_, &status) == 0;
    if (!known || !S_ISREG(status.st_mode)) {
      ::close(descriptor_);
      throw FileError("'" + path + "' is not a regular file");
    }
    size_ = status.st_size;
  }
  ~InputFile() { ::close(descriptor_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  int64_t size() const { return size_; }

  void Read(int64_t offset, int64_t count, void* bytes) const {
    char* next = static_cast<char*>(bytes);
    while (count > 0) {
      const ssize_t got = ::pread(descriptor_, next, std::min(count, kMaxRead), offset);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) Fail(offset, "cannot read: " + std::generic_category().message(errno));
      if (got == 0) Fail(offset, "the file became shorter while it was read");
      next += got;
      offset += got;
      count -= got;
    }
  }

  [[noreturn]] void Fail(int64_t byte, const std::string& what) const {
    throw FileError("'" + path_ + "', byte " + std::to_string(byte) + ": " + what);
  }

 private:
  const std::string& path_;
  int descriptor_ = -1;
  int64_t size_ = 0;
};

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

at::Tensor ReadTensor(const InputFile& file, const SafetensorsEntry& entry, int64_t data_offset) {
  const int64_t bytes = entry.end - entry.begin;
  at::Tensor tensor;
  try {
    tensor = at::empty(entry.shape, at::TensorOptions().dtype(entry.dtype));
  } catch (const c10::Error&) {
    file.Fail(entry.described_at, "no memory for the " + std::to_string(bytes) + " bytes of tensor " + QuotedName(entry.name));
  }
  file.Read(data_offset + entry.begin, bytes, tensor.mutable_data_ptr());
  if (entry.dtype == at::ScalarType::Bool) {
    // Any other byte would be a bool that is neither true nor false.
    const auto* first = static_cast<const uint8_t*>(tensor.const_data_ptr());
    const auto* wrong = std::find_if(first, first + bytes, [](uint8_t byte) { return byte > 1; });
    if (wrong != first + bytes) {
      file.Fail(data_offset + entry.begin + (wrong - first),
                "tensor " + QuotedName(entry.name) + " of type BOOL holds another byte than 0 and 1");
    }
  }
  return tensor;
}

void CheckWritable(const std::string& name, const at::Tensor& tensor) {
  const std::string argument = "tensors[" + QuotedName(name) + "]";
  if (name.empty() || static_cast<int64_t>(name.size()) > kMaxNameBytes || name.find('\0') != std::string::npos ||
      name == kMetadataKey) {
    throw InvalidArgument(argument + ": a name of 1 to 1024 bytes without NUL, other than __metadata__, is expected");
  }
  if (!tensor.defined() || tensor.layout() != at::kStrided || SafetensorsDtype(tensor.scalar_type()) == nullptr) {
    throw InvalidArgument(argument +
                          ": a dense tensor of float64, float32, float16, bfloat16, int64, int32, int16, int8, uint8 "
                          "or bool is expected");
  }
  if (tensor.dim() > SafetensorsLimits{}.rank) throw InvalidArgument(argument + ": at most 8 dimensions are expected");
}

std::string HeaderText(const std::map<std::string, at::Tensor>& tensors, const std::map<std::string, std::string>& metadata) {
  nlohmann::json header = nlohmann::json::object();
  if (!metadata.empty()) header[kMetadataKey] = metadata;
  int64_t end = 0;
  for (const auto& [name, tensor] : tensors) {
    CheckWritable(name, tensor);
    const int64_t begin = end;
    end += static_cast<int64_t>(tensor.nbytes());
    header[name] = {{"dtype", SafetensorsDtype(tensor.scalar_type())},
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

Safetensors ReadSafetensors(const std::string& path, const SafetensorsLimits& limits) {
  const SafetensorsLimits capped = Capped(limits);
  const InputFile file(path);
  const std::string text = ReadHeaderText(file, capped);
  const int64_t data_offset = kLengthBytes + static_cast<int64_t>(text.size());
  SafetensorsHeader header = ParseSafetensorsHeader(text, file.size() - data_offset, path, capped);
  Safetensors result;
  result.metadata = std::move(header.metadata);
  for (const SafetensorsEntry& entry : header.entries) result.tensors.emplace(entry.name, ReadTensor(file, entry, data_offset));
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
