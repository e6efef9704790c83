// The header of a safetensors file: what the file claims to hold, checked before anyone acts on it.
#ifndef HEED_NN_SRC_SAFETENSORS_HEADER_H_
#define HEED_NN_SRC_SAFETENSORS_HEADER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <c10/core/ScalarType.h>

#include "heed/nn/safetensors.h"

namespace heed::nn {

inline constexpr char kMetadataKey[] = "__metadata__";
inline constexpr int64_t kLengthBytes = 8;  // the header's length, little-endian, stands before the header
inline constexpr int64_t kMaxHeaderBytes = 100'000'000;
inline constexpr int64_t kMaxTensors = 1'000'000;
inline constexpr int64_t kMaxNameBytes = 1024;

// Every type of the format, by the name that it has there.
struct SafetensorsType {
  const char* name;
  int64_t bits;                         // of an element
  std::optional<at::ScalarType> dtype;  // nothing where heed does not read it
};

struct SafetensorsEntry {
  std::string name;
  const SafetensorsType* type = nullptr;
  std::vector<int64_t> shape;
  int64_t begin = 0, end = 0;  // bytes, counted from the end of the header
  int64_t described_at = 0;    // byte of the file where the description of this tensor ends
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the order of their data
  std::map<std::string, std::string> metadata;
};

// The name of a file's tensor, or of a metadata entry: 1 to kMaxNameBytes bytes without NUL.
bool IsTensorName(std::string_view name);

// text: the header's bytes; data_bytes: how many bytes follow it in the file. Throws FileError unless every tensor's name,
// type, shape and place are valid and the tensors fill the data exactly, without holes or overlap. `path` serves the messages.
SafetensorsHeader ParseSafetensorsHeader(std::string_view text, int64_t data_bytes, const std::string& path,
                                         const SafetensorsLimits& limits);

// "F32", "BF16", ...; nullptr for types that heed does not store.
const char* SafetensorsDtype(at::ScalarType dtype);

// A name from a file, quoted, cut and stripped of control characters, so that it is safe to print.
std::string QuotedName(const std::string& name);

}  // namespace heed::nn

#endif  // HEED_NN_SRC_SAFETENSORS_HEADER_H_
