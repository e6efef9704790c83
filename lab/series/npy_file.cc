#include "lab/series/npy_file.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <string_view>

#include "heed/error.h"
#include "heed/safetensors.h"
#include "lab/report/file.h"

namespace heed::lab {
namespace {

constexpr std::size_t kLongestHeader = 1 << 16;

struct Header {
  std::string type;
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

// The Python dictionary of a header, with just the values that NumPy writes there.
class HeaderParser {
 public:
  HeaderParser(const std::string& name, std::string_view text) : name_(name), text_(text) {}

  Header Parse() {
    Header header;
    bool type = false, order = false, shape = false;
    Expect('{');
    while (!Take('}')) {
      const std::string key = String();
      Expect(':');
      if (key == "descr" && !type) {
        header.type = String(), type = true;
      } else if (key == "fortran_order" && !order) {
        header.fortran_order = Boolean(), order = true;
      } else if (key == "shape" && !shape) {
        header.shape = Tuple(), shape = true;
      } else {
        Fail("the key '" + ShownName(key) + "' is unknown or there twice");
      }
      if (!Take(',') && Peek() != '}') Fail("a comma is missing");
    }
    Skip();
    if (!text_.empty()) Fail("text follows the dictionary");
    if (!type || !order || !shape) Fail("descr, fortran_order or shape is missing");
    return header;
  }

 private:
  [[noreturn]] void Fail(const std::string& what) const { throw FileError(name_ + ": the NPY header is malformed: " + what); }

  void Skip() {
    while (!text_.empty() && (text_.front() == ' ' || text_.front() == '\n')) text_.remove_prefix(1);
  }
  char Peek() {
    Skip();
    if (text_.empty()) Fail("it ends early");
    return text_.front();
  }
  bool Take(char c) {
    if (Peek() != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  void Expect(char c) {
    if (!Take(c)) Fail(std::string("'") + c + "' is missing");
  }

  std::string String() {
    const char quote = Peek();
    if (quote != '\'' && quote != '"') Fail("a type that is not one word; structured arrays are not read");
    text_.remove_prefix(1);
    const std::size_t end = text_.find(quote);
    if (end == std::string_view::npos) Fail("a quote is not closed");
    std::string value(text_.substr(0, end));
    text_.remove_prefix(end + 1);
    return value;
  }

  bool Boolean() {
    Skip();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(0, word.size()) != word) continue;
      text_.remove_prefix(word.size());
      return value;
    }
    Fail("fortran_order is neither True nor False");
  }

  std::vector<int64_t> Tuple() {
    std::vector<int64_t> values;
    Expect('(');
    while (!Take(')')) {
      Skip();
      int64_t value = 0;
      const auto [rest, error] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
      if (error != std::errc() || value < 0) Fail("the shape holds no whole number, 0 or more");
      text_.remove_prefix(rest - text_.data());
      values.push_back(value);
      if (!Take(',') && Peek() != ')') Fail("a comma is missing in the shape");
    }
    return values;
  }

  std::string name_;
  std::string_view text_;
};

struct Type {
  std::size_t bytes;
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
  if (length > kLongestHeader || bytes.size() - prefix < length) {
    throw FileError(name + ": the NPY header claims " + std::to_string(length) + " bytes; the file has " +
                    std::to_string(bytes.size() - prefix) + " and " + std::to_string(kLongestHeader) + " are read at most");
  }
  const std::string_view header = bytes.substr(prefix, length);
  bytes.remove_prefix(prefix + length);
  return header;
}

std::string Index(std::size_t flat, const std::vector<int64_t>& shape) {
  std::vector<std::size_t> indices(shape.size());
  for (std::size_t i = shape.size(); i-- > 0;) {
    indices[i] = flat % static_cast<std::size_t>(shape[i]);
    flat /= static_cast<std::size_t>(shape[i]);
  }
  std::string text = "[";
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(indices[i]);
  }
  return text + "]";
}

// Of the values; `bytes`: what the file has behind the header. Throws FileError where that is not what the shape promises.
std::size_t Count(const std::string& name, const Header& header, std::size_t bytes) {
  if (header.fortran_order) throw FileError(name + ": the array is in Fortran order; save numpy.ascontiguousarray(x)");
  // Empty extents are left out of the product: that of a row, whose extents are the others, must not overflow either.
  std::size_t count = 1;
  for (const int64_t extent : header.shape) {
    if (extent == 0) continue;
    if (__builtin_mul_overflow(count, static_cast<std::size_t>(extent), &count) || count > (std::size_t{1} << 48)) {
      throw FileError(name + ": the shape is too large");
    }
  }
  if (std::ranges::find(header.shape, 0) != header.shape.end()) count = 0;
  const std::size_t promised = count * TypeNamed(name, header.type).bytes;
  if (bytes == promised) return count;
  throw FileError(name + ": the header promises " + std::to_string(promised) + " bytes of values, the file has " +
                  std::to_string(bytes));
}

// `first`: the place of the first in the whole array. may_lack: NaN is a value that is missing.
std::vector<double> Values(const std::string& name, const Header& header, std::string_view bytes, std::size_t first,
                           bool may_lack) {
  const Type& type = TypeNamed(name, header.type);
  std::vector<double> values(bytes.size() / type.bytes);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double value = type.read(bytes.data() + i * type.bytes);
    if (!std::isfinite(value) && !(may_lack && std::isnan(value)))
      throw FileError(name + ": the value at " + Index(first + i, header.shape) +
                      " is not finite; fill it in, or leave its row out");
    if (type.whole && std::abs(value) > kLargestWhole) throw FileError(name + ": a whole number is beyond 2^53");
    values[i] = value;
  }
  return values;
}

}  // namespace

NpyArray ParseNpy(const std::string& name, const std::string& bytes, bool may_lack) {
  std::string_view rest = bytes;
  const Header header = HeaderParser(name, TakeHeader(name, rest)).Parse();
  const Type& type = TypeNamed(name, header.type);
  Count(name, header, rest.size());
  return {name, header.shape, type.whole, Values(name, header, rest, 0, may_lack)};
}

NpyArray ReadNpy(const std::filesystem::path& path, bool may_lack) {
  return ParseNpy(NameOfInput(path), ReadFile(path), may_lack);
}

NpyFile::NpyFile(const std::filesystem::path& path, bool may_lack)
    : name_(NameOfInput(path)), file_(path.string()), may_lack_(may_lack) {
  constexpr int64_t kBeforeHeader = 12;
  std::string bytes(std::min(file_.size(), kBeforeHeader + static_cast<int64_t>(kLongestHeader)), '\0');
  file_.Read(0, std::ssize(bytes), bytes.data());
  std::string_view rest = bytes;
  const Header header = HeaderParser(name_, TakeHeader(name_, rest)).Parse();
  begin_ = std::ssize(bytes) - std::ssize(rest);
  Count(name_, header, static_cast<std::size_t>(file_.size() - begin_));
  type_ = header.type, shape_ = header.shape;
}

std::vector<double> NpyFile::Rows(int64_t first, int64_t end) const {
  int64_t values = 1;  // of a row
  for (std::size_t d = 1; d < shape_.size(); ++d) values *= shape_[d];
  const auto bytes = static_cast<int64_t>(TypeNamed(name_, type_).bytes) * values;
  std::string read(static_cast<std::size_t>((end - first) * bytes), '\0');
  file_.Read(begin_ + first * bytes, std::ssize(read), read.data());
  return Values(name_, {type_, false, shape_}, read, static_cast<std::size_t>(first * values), may_lack_);
}

}  // namespace heed::lab
