// Reads safetensors files into plain memory. A file from outside is hostile until checked: everything that its header claims is
// validated before memory is allocated for it. Format: https://github.com/huggingface/safetensors (README, "Format"): eight
// bytes of length, a JSON header, the data.
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

// Every type of the format, by the name that it has there: "F32", "BF16", ...
struct SafetensorsType {
  const char* name;
  int64_t bits;                        // of an element
  std::optional<ElementType> element;  // nothing where heed does not read it
};

// The name that the format has for a type that heed reads.
const char* SafetensorsName(ElementType element);

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

// text: the header's bytes; data_bytes: how many bytes follow it in the file. Throws FileError unless every tensor's name,
// type, shape and place are valid and the tensors fill the data exactly, without holes or overlap. `path` serves the messages.
SafetensorsHeader ParseSafetensorsHeader(std::string_view text, int64_t data_bytes, const std::string& path,
                                         const SafetensorsLimits& limits);

// An open file: its header is checked, its tensors are read one by one.
class SafetensorsFile {
 public:
  // Throws FileError, which names the file, the byte and what is wrong, unless the file, of at most `most_bytes`, has a valid
  // header within `limits`.
  explicit SafetensorsFile(const std::string& path, const SafetensorsLimits& limits = {},
                           int64_t most_bytes = std::numeric_limits<int64_t>::max());

  const std::string& path() const { return file_.path(); }
  const std::vector<SafetensorsEntry>& entries() const { return header_.entries; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }

  // The bytes of one of entries(), which must have a type that heed reads, row by row, little-endian: bytes has room for
  // entry.end - entry.begin of them. Throws FileError.
  void Read(const SafetensorsEntry& entry, void* bytes) const;

  // Throws FileError about the entry: it names the file, the byte where the tensor is described and `what`.
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

// The tensors of a safetensors file, or of several files with an index (*.index.json) beside them, by name. Nothing but
// headers is read. Throws FileError.
std::map<std::string, StoredTensor> OpenTensors(const std::string& path);

// The name of a file's tensor, or of a metadata entry: 1 to kMaxNameBytes bytes without NUL.
bool IsTensorName(std::string_view name);

}  // namespace heed

#endif  // HEED_SAFETENSORS_H_
