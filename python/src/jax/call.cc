#include "call.h"

#include <cstring>

namespace heed::jax {
namespace {

// buffer_at(i) is the array that entry i of the list is about.
template <class BufferAt>
std::vector<Array> ArraysOf(std::string_view list, const BufferAt& buffer_at) {
  static std::byte nowhere{};
  std::vector<Array> arrays;
  for (const std::string_view entry : Split(list, ' ')) {
    const std::size_t colon = entry.find(':');
    const xla::ffi::AnyBuffer buffer = buffer_at(arrays.size());
    const auto dimensions = buffer.dimensions();
    const auto* split = dimensions.end() - Parsed<int64_t>("rank", entry.substr(colon + 1));
    auto* data = static_cast<std::byte*>(buffer.untyped_data());
    if (data == nullptr) data = &nowhere;  // XLA has no memory behind what is empty
    arrays.push_back(
        {entry.substr(0, colon), buffer.element_type(), data, {dimensions.begin(), split}, {split, dimensions.end()}});
  }
  return arrays;
}

struct NamedType {
  std::string_view name;
  DataType type;
  enum { kOther, kSigned, kUnsigned } integers = kOther;
};
constexpr NamedType kTypes[] = {{"float32", DataType::F32},
                                {"float64", DataType::F64},
                                {"bfloat16", DataType::BF16},
                                {"float16", DataType::F16},
                                {"bool", DataType::PRED},
                                {"int8", DataType::S8, NamedType::kSigned},
                                {"int16", DataType::S16, NamedType::kSigned},
                                {"int32", DataType::S32, NamedType::kSigned},
                                {"int64", DataType::S64, NamedType::kSigned},
                                {"uint8", DataType::U8, NamedType::kUnsigned},
                                {"uint16", DataType::U16, NamedType::kUnsigned},
                                {"uint32", DataType::U32, NamedType::kUnsigned},
                                {"uint64", DataType::U64, NamedType::kUnsigned}};

int64_t SizeOf(const Array& array) {
  int64_t size = 1;
  for (const int64_t extent : array.extent) size *= extent;
  return size;
}

// Options that say something of each batch row alone. Dropout counts the rows of a call, and of everything else one array may
// serve, or gather, all of them.
bool IsPerRow(const Array& array) {
  return array.name == "query_lengths" || array.name == "key_lengths" || array.name == "prefix_lengths";
}

bool IsUnmapped(const Array& array) {
  return std::ranges::all_of(array.mapped, [](int64_t extent) { return extent == 1; });
}

bool IsOperand(const Array& array) {
  constexpr std::string_view kOperands[] = {"query",       "key",           "value",     "d_output",     "d_lse",
                                            "output",      "lse",           "remainder", "correction",   "entropy",
                                            "max_weight",  "mean_distance", "d_entropy", "d_max_weight", "d_mean_distance",
                                            "largest_key", "t_query",       "t_key",     "t_value",      "t_output",
                                            "t_lse",       "t_d_output",    "t_d_lse"};
  return std::ranges::find(kOperands, array.name) != std::end(kOperands);
}

}  // namespace

std::string& Message() {
  thread_local std::string message;
  return message;
}

Call::Call(const xla::ffi::RemainingArgs& arguments, const xla::ffi::RemainingRets& results, std::string_view operand_list,
           std::string_view result_list, std::string_view settings_text)
    : settings(settings_text),
      inputs_(ArraysOf(operand_list, [&](std::size_t i) { return *arguments.get<xla::ffi::AnyBuffer>(i); })),
      results_(ArraysOf(result_list, [&](std::size_t i) { return **results.get<xla::ffi::AnyBuffer>(i); })) {
  Map(inputs_);
  Map(results_);
}

Call::Call(std::string_view described, std::string_view settings_text) : settings(settings_text) {
  for (const std::string_view entry : Split(described, ' ')) {
    const std::vector<std::string_view> parts = Split(entry, ':');
    const auto* known = std::ranges::find(kTypes, parts[1], &NamedType::name);
    if (known == std::end(kTypes)) throw Error(std::string(parts[0]) + ": an array of unknown type " + std::string(parts[1]));
    Array& array = inputs_.emplace_back(Array{.name = parts[0], .type = known->type});
    if (parts.size() > 2)
      for (const std::string_view extent : Split(parts[2], ',')) array.extent.push_back(Parsed<int64_t>(parts[0], extent));
  }
}

void Call::Map(const std::vector<Array>& arrays) {
  for (const Array& array : arrays) {
    mapped_.resize(array.mapped.size(), 1);
    for (std::size_t d = 0; d < mapped_.size(); ++d)
      if (mapped_[d] == 1) mapped_[d] = array.mapped[d];
  }
}

void Call::FoldIntoBatch() {
  if (settings.Text("dropout") || Find("query")->extent.size() != 4) return;
  int64_t count = 1;
  for (const int64_t extent : mapped_) count *= extent;
  for (const Array& array : inputs_)
    if (array.mapped == mapped_ ? !IsOperand(array) && !IsPerRow(array) : !IsPerRow(array) || !IsUnmapped(array)) return;
  for (std::vector<Array>* arrays : {&inputs_, &results_}) {
    for (Array& array : *arrays) {
      (array.mapped == mapped_ ? array.extent.front() : array.repeats) *= count;
      array.mapped.clear();
    }
  }
  mapped_.clear();
}

std::byte* Call::AddressOf(const Array& array) const {
  alignas(std::max_align_t) static std::byte zero[sizeof(double)];
  if (array.data == nullptr) return zero;
  int64_t own = 0, stride = SizeOf(array) * static_cast<int64_t>(xla::ffi::ByteWidth(array.type));
  for (std::size_t d = mapped_.size(), index = static_cast<std::size_t>(slice_); d-- > 0;) {
    if (array.mapped[d] != 1) own += static_cast<int64_t>(index % mapped_[d]) * stride;
    index /= mapped_[d];
    stride *= array.mapped[d];
  }
  return array.data + own;
}

std::vector<int64_t>& Call::Room(int64_t count) {
  std::vector<int64_t>& numbers = numbers_.emplace_back();
  numbers.reserve(static_cast<std::size_t>(count) + 1);
  numbers.resize(static_cast<std::size_t>(count));
  return numbers;
}

std::vector<int64_t>& Call::Numbers(const Array& array) {
  const int64_t size = SizeOf(array);
  std::vector<int64_t>& numbers = Room(size * array.repeats);
  if (array.data == nullptr) return numbers;
  const auto bytes = xla::ffi::ByteWidth(array.type);
  const auto* known = std::ranges::find(kTypes, array.type, &NamedType::type);
  if (known == std::end(kTypes) || known->integers == NamedType::kOther)
    throw Error(std::string(array.name) + ": expected integers");
  const bool with_sign = known->integers == NamedType::kSigned;
  const std::byte* read = AddressOf(array);
  for (int64_t i = 0; i < size; ++i, read += bytes) {
    uint64_t number = 0;
    std::memcpy(&number, read, bytes);  // the first bytes are the low ones on every machine that XLA computes on
    const std::size_t above = with_sign ? 64 - 8 * bytes : 0;
    const int64_t wide = static_cast<int64_t>(number << above) >> above;
    if (!with_sign && wide < 0) throw InvalidArgument(std::string(array.name) + ": expected integers below 2^63");
    for (int64_t set = 0; set < array.repeats; ++set) numbers[set * size + i] = wide;
  }
  return numbers;
}

}  // namespace heed::jax
