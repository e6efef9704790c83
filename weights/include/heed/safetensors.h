// Reads safetensors files into plain memory. Files may be hostile: the reader validates all claims of a header before it
// allocates memory for them. Format: https://github.com/huggingface/safetensors (README, "Format"): eight bytes of length, a
// JSON header, the data.
#ifndef HEED_SAFETENSORS_H_
#define HEED_SAFETENSORS_H_

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heed/input_file.h"
#include "heed/shown_name.h"

namespace heed {

struct SafetensorsLimits {
  int64_t header_bytes = int64_t{16} << 20;  // at most kMaxHeaderBytes
  int64_t tensors = 65536;                   // at most 1,000,000
  int64_t rank = 8;
};

inline constexpr char kMetadataKey[] = "__metadata__";
inline constexpr int64_t kLengthBytes = 8;  // the header's length, little-endian, stands before the header
inline constexpr int64_t kMaxHeaderBytes = 100'000'000;
inline constexpr int64_t kMaxNameBytes = 1024;

// The types of elements that heed reads.
enum class ElementType { kFloat64, kFloat32, kFloat16, kBFloat16, kInt64, kInt32, kInt16, kInt8, kUint8, kBool };

// A type of the format, by its name there: "F32", "BF16", ...
struct SafetensorsType {
  const char* name;
  int64_t bits;                        // of an element
  std::optional<ElementType> element;  // absent if heed does not read it
};

// The format's name for a type that heed reads.
const char* SafetensorsName(ElementType element);

struct SafetensorsEntry {
  std::string name;
  const SafetensorsType* type = nullptr;
  std::vector<int64_t> shape;
  int64_t begin = 0, end = 0;  // bytes, counted from the end of the header
  int64_t described_at = 0;    // byte of the file at the end of this tensor's description
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the order of their data
  std::map<std::string, std::string> metadata;
};

// text: the header's bytes; data_bytes: number of bytes after it in the file. Throws FileError unless every tensor's name,
// type, shape and place are valid and the tensors fill the data exactly, without holes or overlap. Messages name `path`.
SafetensorsHeader ParseSafetensorsHeader(std::string_view text, int64_t data_bytes, const std::string& path,
                                         const SafetensorsLimits& limits);

// An open file with a checked header, which reads tensors one by one.
class SafetensorsFile {
 public:
  // Throws FileError, naming the file, the byte and the fault, unless the file has at most `most_bytes` and a valid header
  // within `limits`.
  explicit SafetensorsFile(const std::string& path, const SafetensorsLimits& limits = {},
                           int64_t most_bytes = std::numeric_limits<int64_t>::max());

  const std::string& path() const { return file_.path(); }
  const std::vector<SafetensorsEntry>& entries() const { return header_.entries; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }

  // Reads one of entries(), of a type that heed reads, into entry.end - entry.begin bytes, row-major, little-endian. Throws
  // FileError.
  void Read(const SafetensorsEntry& entry, void* bytes) const;

  // Throws FileError, naming the file, the byte of the entry's description and `what`.
  [[noreturn]] void Fail(const SafetensorsEntry& entry, const std::string& what) const { file_.Fail(entry.described_at, what); }

 private:
  InputFile file_;
  int64_t data_offset_ = 0;
  SafetensorsHeader header_;
};

// A tensor in an open file.
struct StoredTensor {
  std::shared_ptr<const SafetensorsFile> file;
  const SafetensorsEntry* entry = nullptr;  // of the file's
};

// The tensors of a safetensors file, or of an index (*.index.json) of several files, by name. Reads headers only. Throws
// FileError.
std::map<std::string, StoredTensor> OpenTensors(const std::string& path);

// Whether a tensor or a metadata entry may have this name: 1 to kMaxNameBytes bytes without NUL.
bool IsTensorName(std::string_view name);

}  // namespace heed

#endif  // HEED_SAFETENSORS_H_
