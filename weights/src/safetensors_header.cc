#include "heed/safetensors.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include <nlohmann/json.hpp>

#include "heed/error.h"

namespace heed {
namespace {

constexpr SafetensorsType kTypes[] = {
    {"F64", 64, ElementType::kFloat64},
    {"F32", 32, ElementType::kFloat32},
    {"F16", 16, ElementType::kFloat16},
    {"BF16", 16, ElementType::kBFloat16},
    {"I64", 64, ElementType::kInt64},
    {"I32", 32, ElementType::kInt32},
    {"I16", 16, ElementType::kInt16},
    {"I8", 8, ElementType::kInt8},
    {"U8", 8, ElementType::kUint8},
    {"BOOL", 8, ElementType::kBool},
    {"U64", 64, {}},
    {"U32", 32, {}},
    {"U16", 16, {}},
    {"C64", 64, {}},
    {"F8_E4M3", 8, {}},
    {"F8_E5M2", 8, {}},
    {"F8_E8M0", 8, {}},
    {"F8_E4M3FNUZ", 8, {}},
    {"F8_E5M2FNUZ", 8, {}},
    {"F6_E2M3", 6, {}},
    {"F6_E3M2", 6, {}},
    {"F4", 4, {}},
};

// Reads bytes and tells how far the parser has come.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, int64_t* read) : at_(at), read_(read) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    ++*read_;
    return *this;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  int64_t* read_;
};

// Receives the header token by token, so that no tree of a hostile file is ever built: anything unexpected ends the parse at
// once. The format nests three deep; deeper input has nowhere to go.
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderReader(int64_t data_bytes, const std::string& path, const SafetensorsLimits& limits)
      : data_bytes_(data_bytes), path_(path), limits_(limits) {}

  SafetensorsHeader Read(std::string_view text) {
    if (text.empty() || text.front() != '{') Fail("the header does not start with '{'");
    // The parser would take a NUL byte for the end of the header and leave what follows it unread.
    if (const std::size_t nul = text.find('\0'); nul != text.npos) {
      FailAt(kLengthBytes + static_cast<int64_t>(nul), "the header is not valid JSON: it holds a NUL byte");
    }
    const CountingIterator first(text.data(), &read_), last(text.data() + text.size(), &read_);
    nlohmann::json::sax_parse(first, last, this);
    SafetensorsHeader header;
    header.metadata = std::move(metadata_);
    for (auto& [name, entry] : entries_) header.entries.push_back(std::move(entry));
    CheckPlaces(header.entries);
    return header;
  }

  bool start_object(std::size_t) override {
    if (inside_ == Inside::kNothing) {
      inside_ = Inside::kFile;
    } else if (inside_ == Inside::kFile && name_ == kMetadataKey) {
      if (std::exchange(has_metadata_, true)) Fail("__metadata__ appears twice");
      inside_ = Inside::kMetadata;
    } else if (inside_ == Inside::kFile) {
      entry_ = SafetensorsEntry{};
      has_dtype_ = has_shape_ = has_offsets_ = false;
      inside_ = Inside::kTensor;
    } else {
      Unexpected("an object");
    }
    return true;
  }

  bool key(std::string& name) override {
    if (inside_ == Inside::kTensor) {
      StartField(name);
    } else {
      CheckName(name);
      name_ = name;
    }
    return true;
  }

  bool end_object() override {
    if (inside_ == Inside::kTensor) FinishTensor();
    inside_ = inside_ == Inside::kFile ? Inside::kNothing : Inside::kFile;
    return true;
  }

  bool start_array(std::size_t) override {
    if (inside_ != Inside::kTensor || field_ == Field::kDtype) Unexpected("an array");
    inside_ = field_ == Field::kShape ? Inside::kShape : Inside::kOffsets;
    return true;
  }

  bool end_array() override {
    if (inside_ == Inside::kOffsets) {
      if (offsets_.size() != 2) Fail("data_offsets of tensor " + QuotedName(name_) + " are not two numbers");
      entry_.begin = offsets_[0];
      entry_.end = offsets_[1];
    }
    inside_ = Inside::kTensor;
    return true;
  }

  bool string(std::string& text) override {
    if (inside_ == Inside::kMetadata) {
      if (Count(metadata_) >= limits_.tensors) Fail("more than " + std::to_string(limits_.tensors) + " metadata entries");
      if (!metadata_.emplace(name_, text).second) Fail("metadata entry " + QuotedName(name_) + " appears twice");
    } else if (inside_ == Inside::kTensor && field_ == Field::kDtype) {
      ReadDtype(text);
    } else {
      Unexpected("a string");
    }
    return true;
  }

  bool number_unsigned(uint64_t value) override {
    if (inside_ != Inside::kShape && inside_ != Inside::kOffsets) Unexpected("a number");
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) NotAnInteger();
    std::vector<int64_t>& list = inside_ == Inside::kShape ? entry_.shape : offsets_;
    const int64_t limit = inside_ == Inside::kShape ? limits_.rank : 2;
    if (Count(list) >= limit) {
      Fail((inside_ == Inside::kShape ? "shape of tensor " : "data_offsets of tensor ") + QuotedName(name_) +
           " have more than " + std::to_string(limit) + " numbers");
    }
    list.push_back(static_cast<int64_t>(value));
    return true;
  }

  bool number_integer(int64_t) override { NotAnInteger(); }
  bool number_float(double, const std::string&) override { NotAnInteger(); }
  bool null() override { Unexpected("null"); }
  bool boolean(bool) override { Unexpected("a boolean"); }
  bool binary(nlohmann::json::binary_t&) override { Unexpected("binary data"); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override {
    Fail("the header is not valid JSON in UTF-8");
  }

 private:
  enum class Inside { kNothing, kFile, kMetadata, kTensor, kShape, kOffsets };
  enum class Field { kDtype, kShape, kOffsets };

  template <class Container>
  static int64_t Count(const Container& container) {
    return static_cast<int64_t>(container.size());
  }

  [[noreturn]] void FailAt(int64_t byte, const std::string& what) const {
    throw FileError("'" + path_ + "', byte " + std::to_string(byte) + ": " + what);
  }
  [[noreturn]] void Fail(const std::string& what) const { FailAt(kLengthBytes + read_, what); }
  [[noreturn]] void NotAnInteger() const { Fail("a number in the header is not an integer from 0 to 2^63-1"); }
  [[noreturn]] void Unexpected(const std::string& what) const {
    const char* expected = "the name of a tensor";
    if (inside_ == Inside::kFile) expected = "the description of a tensor as an object";
    if (inside_ == Inside::kMetadata) expected = "a string as metadata";
    if (inside_ == Inside::kShape || inside_ == Inside::kOffsets) expected = "an integer";
    if (inside_ == Inside::kTensor) expected = field_ == Field::kDtype ? "a string as dtype" : "a list of integers";
    Fail(what + " stands where " + expected + " is expected" + (name_.empty() ? "" : " at " + QuotedName(name_)));
  }

  void CheckName(const std::string& name) const {
    if (!IsTensorName(name)) {
      Fail("the name " + QuotedName(name) + " is not 1 to " + std::to_string(kMaxNameBytes) + " bytes without NUL");
    }
    if (inside_ != Inside::kFile || name == kMetadataKey) return;
    if (entries_.count(name) != 0) Fail("tensor " + QuotedName(name) + " appears twice");
    if (Count(entries_) >= limits_.tensors) Fail("more than " + std::to_string(limits_.tensors) + " tensors");
  }

  void StartField(const std::string& field) {
    bool* seen = nullptr;
    if (field == "dtype") field_ = Field::kDtype, seen = &has_dtype_;
    if (field == "shape") field_ = Field::kShape, seen = &has_shape_;
    if (field == "data_offsets") field_ = Field::kOffsets, seen = &has_offsets_;
    if (seen == nullptr) Fail("tensor " + QuotedName(name_) + " has an unknown field " + QuotedName(field));
    if (std::exchange(*seen, true)) Fail("tensor " + QuotedName(name_) + " has the field " + field + " twice");
    offsets_.clear();
  }

  void ReadDtype(const std::string& name) {
    for (const SafetensorsType& type : kTypes) {
      if (name == type.name) {
        entry_.type = &type;
        return;
      }
    }
    Fail("tensor " + QuotedName(name_) + " has the type " + QuotedName(name) + ", which the format does not have");
  }

  void FinishTensor() {
    const std::string tensor = "tensor " + QuotedName(name_);
    if (!has_dtype_ || !has_shape_ || !has_offsets_) Fail(tensor + " lacks dtype, shape or data_offsets");
    // Empty extents are left out of the checked product: a later computation of strides must not overflow either.
    int64_t bits = entry_.type->bits;
    bool empty = false;
    for (int64_t extent : entry_.shape) {
      empty |= extent == 0;
      if (extent != 0 && __builtin_mul_overflow(bits, extent, &bits)) Fail("the shape of " + tensor + " overflows");
    }
    if (!empty && bits % 8 != 0) Fail("the " + std::to_string(bits) + " bits of " + tensor + " do not fill whole bytes");
    const int64_t bytes = empty ? 0 : bits / 8;
    if (entry_.end < entry_.begin) Fail(tensor + " ends before it begins");
    if (entry_.end > data_bytes_) Fail(tensor + " ends beyond the end of the file");
    if (entry_.end - entry_.begin != bytes) {
      Fail(tensor + " takes " + std::to_string(bytes) + " bytes by its shape and " + std::to_string(entry_.end - entry_.begin) +
           " by its data_offsets");
    }
    entry_.name = name_;
    entry_.described_at = kLengthBytes + read_;
    entries_.emplace(name_, std::move(entry_));
  }

  // No holes and no overlap: a file means one thing only.
  void CheckPlaces(std::vector<SafetensorsEntry>& entries) const {
    std::stable_sort(entries.begin(), entries.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    int64_t expected = 0;
    for (const SafetensorsEntry& entry : entries) {
      if (entry.begin != expected) {
        FailAt(entry.described_at, "tensor " + QuotedName(entry.name) + " begins at byte " + std::to_string(entry.begin) +
                                       " of the data, the one before it ends at " + std::to_string(expected));
      }
      expected = entry.end;
    }
    if (expected != data_bytes_) {
      Fail("the tensors take " + std::to_string(expected) + " bytes, the file holds " + std::to_string(data_bytes_));
    }
  }

  const int64_t data_bytes_;
  const std::string& path_;
  const SafetensorsLimits& limits_;
  int64_t read_ = 0;

  Inside inside_ = Inside::kNothing;
  Field field_ = Field::kDtype;
  std::string name_;
  SafetensorsEntry entry_;
  std::vector<int64_t> offsets_;
  bool has_metadata_ = false, has_dtype_ = false, has_shape_ = false, has_offsets_ = false;
  std::map<std::string, SafetensorsEntry> entries_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace

SafetensorsHeader ParseSafetensorsHeader(std::string_view text, int64_t data_bytes, const std::string& path,
                                         const SafetensorsLimits& limits) {
  return HeaderReader(data_bytes, path, limits).Read(text);
}

bool IsTensorName(std::string_view name) {
  return !name.empty() && static_cast<int64_t>(name.size()) <= kMaxNameBytes && name.find('\0') == std::string_view::npos;
}

const char* SafetensorsName(ElementType element) {
  const auto* type =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const auto& known) { return known.element == element; });
  return type->name;
}

}  // namespace heed
