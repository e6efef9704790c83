#include <algorithm>
#include <bit>
#include <set>
#include <utility>

#include "heed/error.h"
#include "heed/safetensors.h"
#include "safetensors_index.h"

namespace heed {
namespace {

constexpr int64_t kMaxTensors = 1'000'000;

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
  // Read as a length, the "PK" of an archive or the 0x80 of a pickle begins a number that no header reaches.
  if (length >> 40 != 0 && ((length & 0xFFFF) == 0x4B50 || (length & 0xFF) == 0x80))
    file.Fail(0, "this is no safetensors file but one of torch.save; read it with torch.load(path, weights_only=True)");
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

using Tensors = std::map<std::string, StoredTensor>;

std::shared_ptr<const SafetensorsFile> Open(const std::string& path) { return std::make_shared<const SafetensorsFile>(path); }

Tensors OpenShards(const std::string& path) {
  const std::map<std::string, std::string> index = ReadSafetensorsIndex(path, SafetensorsLimits{});
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  std::set<std::string> shards;
  for (const auto& [name, shard] : index) shards.insert(shard);
  Tensors tensors;
  for (const std::string& shard : shards) {
    const std::shared_ptr<const SafetensorsFile> file = Open(folder + shard);
    for (const SafetensorsEntry& entry : file->entries()) {
      const auto listed = index.find(entry.name);
      if (listed == index.end() || listed->second != shard) {
        std::string fault = "'" + path + "': tensor " + QuotedName(entry.name) + " lies in '";
        fault += shard + "', where the index ";
        throw FileError(fault + (listed == index.end() ? "knows no such tensor" : "does not look for it"));
      }
      tensors.emplace(entry.name, StoredTensor{file, &entry});
    }
  }
  for (const auto& [name, shard] : index) {
    if (!tensors.contains(name)) {
      const std::string fault = "'" + path + "': tensor " + QuotedName(name) + " is not in '";
      throw FileError(fault + shard + "', where the index looks for it");
    }
  }
  return tensors;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path, const SafetensorsLimits& limits, int64_t most_bytes)
    : file_(path, most_bytes) {
  const SafetensorsLimits capped = Capped(limits);
  const std::string text = ReadHeaderText(file_, capped);
  data_offset_ = kLengthBytes + static_cast<int64_t>(text.size());
  header_ = ParseSafetensorsHeader(text, file_.size() - data_offset_, path, capped);
}

void SafetensorsFile::Read(const SafetensorsEntry& entry, void* bytes) const {
  const int64_t count = entry.end - entry.begin;
  file_.Read(data_offset_ + entry.begin, count, bytes);
  if (entry.type->element != ElementType::kBool) return;
  // Any other byte would be a bool that is neither true nor false.
  const auto* first = static_cast<const uint8_t*>(bytes);
  const auto* wrong = std::find_if(first, first + count, [](uint8_t byte) { return byte > 1; });
  if (wrong != first + count) {
    file_.Fail(data_offset_ + entry.begin + (wrong - first),
               "tensor " + QuotedName(entry.name) + " of type BOOL holds another byte than 0 and 1");
  }
}

std::map<std::string, StoredTensor> OpenTensors(const std::string& path) {
  if (IsSafetensorsIndex(path)) return OpenShards(path);
  const std::shared_ptr<const SafetensorsFile> file = Open(path);
  Tensors tensors;
  for (const SafetensorsEntry& entry : file->entries()) tensors.emplace(entry.name, StoredTensor{file, &entry});
  return tensors;
}

}  // namespace heed
