#include <algorithm>
#include <bit>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "heed/error.h"
#include "heed/safetensors.h"

namespace heed {
namespace {

constexpr int64_t kMaxTensors = 1'000'000;

// Of the index of a checkpoint that is cut into several files.
constexpr std::string_view kIndexSuffix = ".index.json", kShardSuffix = ".safetensors";
constexpr char kWeightMap[] = "weight_map";
constexpr std::size_t kMaxShards = 512;    // each file is open while tensors are read
constexpr std::size_t kMaxFileName = 255;  // bytes, as file systems have it
constexpr int kDeepestMetadata = 4;

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

using Json = nlohmann::json;

[[noreturn]] void FailIndex(const std::string& path, const std::string& what) { throw FileError("'" + path + "': " + what); }

// The index at `path` as JSON whose parts and tensors appear once, which the parser does not ask for.
Json ParseIndex(const std::string& path) {
  const std::string text = ReadFile(path, SafetensorsLimits{}.header_bytes);
  // The parser would take a NUL byte for the end.
  if (text.find('\0') != text.npos) FailIndex(path, "the index holds a NUL byte");
  std::string part;
  std::set<std::string> seen;
  const auto check = [&](int depth, Json::parse_event_t event, const Json& json) {
    const bool opens = event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
    if (opens && depth >= kDeepestMetadata)
      FailIndex(path, "metadata nest more than " + std::to_string(kDeepestMetadata) + " levels deep");
    if (event != Json::parse_event_t::key || depth > 2) return true;
    const auto name = json.get<std::string>();
    if (depth == 1) part = name;
    if (depth == 2 && part != kWeightMap) return true;
    if (!seen.insert(depth == 1 ? name : part + '/' + name).second) FailIndex(path, QuotedName(name) + " appears twice");
    return true;
  };
  try {
    return Json::parse(text, check);
  } catch (const Json::parse_error& error) {
    FailIndex(path, "byte " + std::to_string(error.byte) + ": the index is not valid JSON in UTF-8");
  } catch (const Json::out_of_range&) {
    FailIndex(path, "the index holds a number that no double holds");
  }
}

// The file of each tensor by the tensor's name. Files are names beside the index.
std::map<std::string, std::string> ReadIndex(const std::string& path) {
  const Json index = ParseIndex(path);
  if (!index.is_object()) FailIndex(path, "the index is not an object");
  for (const auto& [key, part] : index.items()) {
    if (key != kWeightMap && key != "metadata") FailIndex(path, "the key " + QuotedName(key) + " is unknown");
    if (!part.is_object()) FailIndex(path, "the " + key + " is not an object");
  }
  if (!index.contains(kWeightMap)) FailIndex(path, "the weight_map is missing");
  std::map<std::string, std::string> files;
  for (const auto& [name, file] : index[kWeightMap].items()) {
    if (!IsTensorName(name)) FailIndex(path, "the name " + QuotedName(name) + " is not 1 to 1024 bytes without NUL");
    if (!file.is_string()) FailIndex(path, "the file of tensor " + QuotedName(name) + " is not a string");
    const auto shard = file.get<std::string>();
    const bool is_name = shard.size() <= kMaxFileName && shard.size() > kShardSuffix.size() && shard.ends_with(kShardSuffix) &&
                         shard.find_first_of(std::string_view("/\\\0", 3)) == shard.npos && shard.find("..") == shard.npos &&
                         std::ranges::none_of(shard, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
    if (!is_name)
      FailIndex(path,
                "tensor " + QuotedName(name) + " lies in " + QuotedName(shard) + ", which names no file beside the index");
    files.emplace(name, shard);
  }
  if (std::ssize(files) > SafetensorsLimits{}.tensors)
    FailIndex(path, "more than " + std::to_string(SafetensorsLimits{}.tensors) + " tensors");
  return files;
}

using Tensors = std::map<std::string, StoredTensor>;

std::shared_ptr<const SafetensorsFile> Open(const std::string& path) { return std::make_shared<const SafetensorsFile>(path); }

Tensors OpenShards(const std::string& path) {
  const std::map<std::string, std::string> index = ReadIndex(path);
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  std::set<std::string> shards;
  for (const auto& [name, shard] : index) shards.insert(shard);
  if (shards.size() > kMaxShards) FailIndex(path, "more than " + std::to_string(kMaxShards) + " files");
  Tensors tensors;
  for (const std::string& shard : shards) {
    const std::shared_ptr<const SafetensorsFile> file = Open(folder + shard);
    for (const SafetensorsEntry& entry : file->entries()) {
      const auto listed = index.find(entry.name);
      if (listed == index.end() || listed->second != shard) {
        FailIndex(path, "tensor " + QuotedName(entry.name) + " lies in '" + shard + "', where the index " +
                            (listed == index.end() ? "knows no such tensor" : "does not look for it"));
      }
      tensors.emplace(entry.name, StoredTensor{file, &entry});
    }
  }
  for (const auto& [name, shard] : index) {
    if (!tensors.contains(name))
      FailIndex(path, "tensor " + QuotedName(name) + " is not in '" + shard + "', where the index looks for it");
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
  if (path.ends_with(kIndexSuffix)) return OpenShards(path);
  const std::shared_ptr<const SafetensorsFile> file = Open(path);
  Tensors tensors;
  for (const SafetensorsEntry& entry : file->entries()) tensors.emplace(entry.name, StoredTensor{file, &entry});
  return tensors;
}

}  // namespace heed
