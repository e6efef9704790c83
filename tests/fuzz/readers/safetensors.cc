// Safetensors files and indices of several.
#include <string>

#include "heed/safetensors.h"
#include "tests/fuzz/readers/reader.h"

namespace heed::fuzz {
namespace {

constexpr char kEveryType[] =
    R"({"__metadata__":{"format":"pt","é":""},"a":{"dtype":"F64","shape":[2,1],"data_offsets":[0,16]},)"
    R"("b":{"dtype":"BF16","shape":[],"data_offsets":[16,18]},"c":{"dtype":"F4","shape":[4],"data_offsets":[18,20]},)"
    R"("d":{"dtype":"BOOL","shape":[0,3],"data_offsets":[20,20]},"e":{"dtype":"I32","shape":[1],"data_offsets":[20,24]}})";

void ReadAll(const SafetensorsFile& file) {
  for (const SafetensorsEntry& entry : file.entries()) {
    if (!entry.type->element) continue;
    std::string bytes(static_cast<std::size_t>(entry.end - entry.begin), '\0');
    file.Read(entry, bytes.data());
  }
}

void ReadFile(std::string_view bytes) { ReadAll(SafetensorsFile(WriteAt("model.safetensors", bytes))); }

std::vector<std::string> Files() {
  return {TensorFile("{}", ""), TensorFile({{"W_q.weight", {2, 3}}, {"W_q.bias", {2}}}),
          TensorFile(kEveryType, std::string(24, '\1'))};
}

// The second file is the index's a.safetensors.
void ReadIndex(std::string_view bytes) {
  const auto [index, shard] = TwoFiles(bytes);
  WriteAt("a.safetensors", shard);
  for (const auto& [name, stored] : OpenTensors(WriteAt("model.safetensors.index.json", index))) {
    Require(name == stored.entry->name, "a tensor has another name than the index says");
    ReadAll(*stored.file);
  }
}

std::vector<std::string> Indices() {
  return {std::string(R"({"metadata":{"total_size":24,"by":[1.5,null,"x",{}]},"weight_map":{"b":"a.safetensors"}})") + '\0' +
              TensorFile({{"b", {2, 3}}}),
          std::string(R"({"weight_map":{}})")};
}

}  // namespace

const Reader kSafetensors{"safetensors", "a safetensors file", ReadFile, Files};
const Reader kIndex{"index", "the index of several safetensors files, and one of them", ReadIndex, Indices};

}  // namespace heed::fuzz
