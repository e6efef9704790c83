#include "lab/series/npy_file.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "heed/error.h"
#include "heed/safetensors.h"
#include "lab/report/file.h"

namespace heed::lab {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kLongestHeader = 1 << 16;

struct Header {
  std::string type;
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

// The Python dictionary of a header is JSON but for its quotes, its tuples, True and False, and commas behind the last member.
std::string JsonOf(std::string_view dictionary) {
  std::string json;
  bool quoted = false;
  for (const char c : dictionary) {
    if (c == '\'' || c == '"') {
      quoted = !quoted, json += '"';
    } else if (quoted) {
      json += c;
    } else if (c == ')' || c == '}') {
      const std::size_t last = json.find_last_not_of(" \n");
      if (last != std::string::npos && json[last] == ',') json.resize(last);
      json += c == ')' ? ']' : c;
    } else {
      json += c == '(' ? '[' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return json;
}

Header ParseHeader(const std::string& name, std::string_view text) {
  const auto require = [&](bool holds, const std::string& what) {
    if (!holds) throw FileError(name + ": the NPY header is malformed: " + what);
  };
  require(text.find('\0') == text.npos, "it holds a NUL byte");  // the parser would take one for the end
  const Json json = Json::parse(JsonOf(text), nullptr, /*allow_exceptions=*/false);
  require(json.is_object(), "it is no dictionary, or text follows it");
  require(
      json.contains("descr") && json.contains("fortran_order") && json.contains("shape") && std::ranges::count(text, ':') == 3,
      "expected descr, fortran_order and shape, each once, and no other key");
  require(json["descr"].is_string(), "descr is a type that is not one word; structured arrays are not read");
  require(json["fortran_order"].is_boolean(), "fortran_order is neither True nor False");
  const auto is_extent = [](const Json& extent) { return extent.is_number_unsigned() && extent.get<uint64_t>() >> 63 == 0; };
  require(json["shape"].is_array() && std::ranges::all_of(json["shape"], is_extent),
          "the shape is no tuple of whole numbers, 0 or more");
  return {json["descr"], json["fortran_order"], json["shape"]};
}

struct Type {
  int64_t bytes;
  bool whole;
  std::function<double(const char*)> read;
};

template <class T>
Type TypeOf() {
  return {sizeof(T), std::is_integral_v<T>, [](const char* bytes) {
            T value;
            std::memcpy(&value, bytes, sizeof value);
            return static_cast<double>(value);
          }};
}

const std::map<std::string, Type>& Types() {
  static const std::map<std::string, Type> types = {
      {"f4", TypeOf<float>()},    {"f8", TypeOf<double>()},   {"i1", TypeOf<int8_t>()},  {"i2", TypeOf<int16_t>()},
      {"i4", TypeOf<int32_t>()},  {"i8", TypeOf<int64_t>()},  {"u1", TypeOf<uint8_t>()}, {"u2", TypeOf<uint16_t>()},
      {"u4", TypeOf<uint32_t>()}, {"u8", TypeOf<uint64_t>()}, {"b1", TypeOf<uint8_t>()}};
  return types;
}

const Type& TypeNamed(const std::string& name, const std::string& descr) {
  const char native = std::endian::native == std::endian::little ? '<' : '>';
  const auto found = descr.empty() ? Types().end() : Types().find(descr.substr(1));
  const bool order = !descr.empty() && (descr[0] == native || descr[0] == '=' || descr[0] == '|');
  if (found != Types().end() && order && (descr[0] != '|' || found->second.bytes == 1)) return found->second;
  const std::string object = descr.find('O') != std::string::npos ? "; pickled objects are never read" : "";
  throw FileError(name + ": values of type '" + ShownName(descr) + "' cannot be used; expected real numbers, integers or " +
                  "booleans in this machine's byte order ('" + native + "f4', '" + native + "f8', '" + native + "i8', ..)" +
                  object);
}

// The header's text; `bytes` is left with the values.
std::string_view TakeHeader(const std::string& name, std::string_view& bytes) {
  constexpr std::string_view kMagic = "\x93NUMPY";
  if (bytes.substr(0, kMagic.size()) != kMagic || bytes.size() < kMagic.size() + 4) {
    throw FileError(name + ": this is no NPY file");
  }
  const auto at = [&](std::size_t i) { return static_cast<std::size_t>(static_cast<unsigned char>(bytes[i])); };
  const std::size_t version = at(6), prefix = version == 1 ? 10 : 12;
  if (version < 1 || version > 3) throw FileError(name + ": NPY version " + std::to_string(version) + " is unknown");
  if (bytes.size() < prefix) throw FileError(name + ": the NPY header ends early");
  std::size_t length = at(8) | at(9) << 8;
  if (version > 1) length |= at(10) << 16 | at(11) << 24;
  if (length > std::size_t{kLongestHeader} || bytes.size() - prefix < length) {
    throw FileError(name + ": the NPY header claims " + std::to_string(length) + " bytes; the file has " +
                    std::to_string(bytes.size() - prefix) + " and " + std::to_string(kLongestHeader) + " are read at most");
  }
  const std::string_view header = bytes.substr(prefix, length);
  bytes.remove_prefix(prefix + length);
  return header;
}

std::string Index(int64_t flat, const std::vector<int64_t>& shape) {
  std::vector<int64_t> indices(shape.size());
  for (std::size_t i = shape.size(); i-- > 0;) {
    indices[i] = flat % shape[i];
    flat /= shape[i];
  }
  return fmt::format("[{}]", fmt::join(indices, ", "));
}

// Of the values; `bytes`: what the file has behind the header. Throws FileError where that is not what the shape promises.
int64_t Count(const std::string& name, const Header& header, int64_t bytes) {
  if (header.fortran_order) throw FileError(name + ": the array is in Fortran order; save numpy.ascontiguousarray(x)");
  // Empty extents are left out of the product: that of a row, whose extents are the others, must not overflow either.
  int64_t count = 1;
  for (const int64_t extent : header.shape) {
    if (extent == 0) continue;
    if (__builtin_mul_overflow(count, extent, &count) || count > (int64_t{1} << 48))
      throw FileError(name + ": the shape is too large");
  }
  if (std::ranges::find(header.shape, 0) != header.shape.end()) count = 0;
  const int64_t promised = count * TypeNamed(name, header.type).bytes;
  if (bytes == promised) return count;
  throw FileError(name + ": the header promises " + std::to_string(promised) + " bytes of values, the file has " +
                  std::to_string(bytes));
}

}  // namespace

NpyFile::NpyFile(const std::filesystem::path& path, bool may_lack, int64_t most_bytes)
    : name_(NameOfInput(path)), file_(path.string(), most_bytes), may_lack_(may_lack) {
  constexpr int64_t kBeforeHeader = 12;
  std::string bytes(std::min(file_.size(), kBeforeHeader + kLongestHeader), '\0');
  file_.Read(0, std::ssize(bytes), bytes.data());
  std::string_view rest = bytes;
  Header header = ParseHeader(name_, TakeHeader(name_, rest));
  begin_ = std::ssize(bytes) - std::ssize(rest);
  count_ = Count(name_, header, file_.size() - begin_);
  type_ = std::move(header.type), shape_ = std::move(header.shape);
}

bool NpyFile::whole() const { return TypeNamed(name_, type_).whole; }

std::vector<double> NpyFile::Rows(int64_t first, int64_t end) const {
  int64_t values = 1;  // of a row
  for (std::size_t d = 1; d < shape_.size(); ++d) values *= shape_[d];
  return Read(first * values, (end - first) * values);
}

std::vector<double> NpyFile::Read(int64_t first, int64_t count) const {
  const Type& type = TypeNamed(name_, type_);
  std::string bytes(static_cast<std::size_t>(count * type.bytes), '\0');
  file_.Read(begin_ + first * type.bytes, std::ssize(bytes), bytes.data());
  std::vector<double> values(static_cast<std::size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const double value = type.read(bytes.data() + i * type.bytes);
    if (!std::isfinite(value) && !(may_lack_ && std::isnan(value)))
      throw FileError(name_ + ": the value at " + Index(first + i, shape_) +
                      " is not finite; fill it in, or leave its row out");
    if (type.whole && std::abs(value) > kLargestWhole) throw FileError(name_ + ": a whole number is beyond 2^53");
    values[i] = value;
  }
  return values;
}

}  // namespace heed::lab
