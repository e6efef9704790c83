#include "arrays.h"

#include <cstring>
#include <limits>
#include <utility>

#include "heed/error.h"
#include "settings.h"

namespace heed::jax {
namespace {

int64_t ProductOf(const std::vector<int64_t>& extents) {
  int64_t product = 1;
  for (const int64_t extent : extents) product *= extent;
  return product;
}

DataType TypeOf(std::string_view name) {
  constexpr std::pair<std::string_view, DataType> kNames[] = {
      {"float32", DataType::F32}, {"float64", DataType::F64}, {"bfloat16", DataType::BF16}, {"float16", DataType::F16},
      {"bool", DataType::PRED},   {"int8", DataType::S8},     {"int16", DataType::S16},     {"int32", DataType::S32},
      {"int64", DataType::S64},   {"uint8", DataType::U8},    {"uint16", DataType::U16},    {"uint32", DataType::U32},
      {"uint64", DataType::U64}};
  for (const auto& [known, type] : kNames)
    if (known == name) return type;
  throw Error("an array of unknown type " + std::string(name));
}

Array NamedArray(std::string_view entry, const xla::ffi::AnyBuffer& buffer) {
  const std::size_t colon = entry.find(':');
  if (colon == std::string_view::npos) throw Error("expected name:rank, got " + std::string(entry));
  const auto dimensions = buffer.dimensions();
  const auto rank = static_cast<std::size_t>(ParseInteger("rank", entry.substr(colon + 1)));
  if (rank > dimensions.size()) throw Error(std::string(entry) + ": the array has fewer dimensions");
  Array array;
  array.name = entry.substr(0, colon);
  array.type = buffer.element_type();
  const auto* split = dimensions.end() - rank;
  array.mapped.assign(dimensions.begin(), split);
  array.extent.assign(split, dimensions.end());
  array.data = static_cast<std::byte*>(buffer.untyped_data());
  static std::byte nowhere{};
  if (array.data == nullptr) array.data = &nowhere;  // XLA has no memory behind what is empty
  return array;
}

// Calls take(entry) for each entry of a list that has as many as there are buffers.
template <class Take>
void ForEachNamed(std::string_view list, std::size_t buffers, const Take& take) {
  const std::vector<std::string_view> entries = Split(list, ' ');
  if (entries.size() != buffers) {
    throw Error("a call has " + std::to_string(buffers) + " arrays and names " + std::to_string(entries.size()));
  }
  for (std::size_t i = 0; i < entries.size(); ++i) take(entries[i], i);
}

template <class Integer>
std::vector<int64_t> Widened(const Array& array, int64_t slice) {
  const int64_t size = array.slice_size();
  const auto* numbers = reinterpret_cast<const Integer*>(AddressOf(array, slice, sizeof(Integer)));
  std::vector<int64_t> wide;
  wide.reserve(static_cast<std::size_t>(size * array.repeats));
  for (int64_t set = 0; set < array.repeats; ++set) {
    for (int64_t i = 0; i < size; ++i) {
      if (!std::in_range<int64_t>(numbers[i]))
        throw InvalidArgument(std::string(array.name) + ": expected integers below 2^63");
      wide.push_back(static_cast<int64_t>(numbers[i]));
    }
  }
  return wide;
}

}  // namespace

int64_t Array::slice_size() const { return ProductOf(extent); }

std::string Array::ShapeText() const {
  std::string text = "[";
  for (const int64_t e : extent) text += (text.size() > 1 ? ", " : "") + std::to_string(e);
  return text + "]";
}

Arrays::Arrays(const xla::ffi::RemainingArgs& arguments, std::string_view list) {
  ForEachNamed(list, arguments.size(), [&](std::string_view entry, std::size_t i) {
    arrays_.push_back(NamedArray(entry, arguments.get<xla::ffi::AnyBuffer>(i).value()));
  });
}

Arrays::Arrays(const xla::ffi::RemainingRets& results, std::string_view list) {
  ForEachNamed(list, results.size(), [&](std::string_view entry, std::size_t i) {
    auto result = results.get<xla::ffi::AnyBuffer>(i).value();
    arrays_.push_back(NamedArray(entry, *result));
  });
}

Arrays Arrays::Described(std::string_view list) {
  Arrays arrays;
  for (const std::string_view entry : Split(list, ' ')) {
    const std::vector<std::string_view> parts = Split(entry, ':');
    if (parts.size() < 2) throw Error("expected name:type:shape, got " + std::string(entry));
    Array array;
    array.name = parts[0];
    array.type = TypeOf(parts[1]);
    if (parts.size() > 2)
      for (const std::string_view extent : Split(parts[2], ',')) array.extent.push_back(ParseInteger(parts[0], extent));
    arrays.arrays_.push_back(std::move(array));
  }
  return arrays;
}

const Array* Arrays::Find(std::string_view name) const {
  for (const Array& array : arrays_)
    if (array.name == name) return &array;
  return nullptr;
}

const Array& Arrays::Get(std::string_view name) const {
  const Array* array = Find(name);
  if (array == nullptr) throw Error("a call without " + std::string(name));
  return *array;
}

void Slices::Cover(const Arrays& arrays) {
  for (const Array& array : arrays.all()) {
    if (extent_.empty()) extent_.resize(array.mapped.size(), 1);
    if (array.mapped.size() != extent_.size()) throw Error(std::string(array.name) + ": mapped another number of times");
    for (std::size_t d = 0; d < extent_.size(); ++d) {
      if (extent_[d] == 1) extent_[d] = array.mapped[d];
      if (array.mapped[d] != 1 && array.mapped[d] != extent_[d]) throw Error(std::string(array.name) + ": mapped otherwise");
    }
  }
}

int64_t Slices::count() const { return ProductOf(extent_); }

int64_t Slices::IndexIn(const Array& array, int64_t index) const {
  int64_t own = 0, stride = 1;
  for (std::size_t d = extent_.size(); d-- > 0;) {
    const int64_t at = index % extent_[d];
    index /= extent_[d];
    if (array.mapped[d] != 1) own += at * stride;
    stride *= array.mapped[d];
  }
  return own;
}

void CheckSlices(const Array& array, DataType type, std::size_t rank) {
  if (array.type == type && array.extent.size() == rank) return;
  throw Error(std::string(array.name) + ": an array of shape " + array.ShapeText() + " and type " +
              std::to_string(static_cast<int>(array.type)) + " stands where " + std::to_string(rank) + " dimensions of type " +
              std::to_string(static_cast<int>(type)) + " are read");
}

std::byte* AddressOf(const Array& array, int64_t slice, std::size_t element_bytes) {
  alignas(std::max_align_t) static std::byte zero[sizeof(double)];
  if (array.data == nullptr) return zero;
  return array.data + slice * array.slice_size() * static_cast<int64_t>(element_bytes);
}

std::vector<int64_t> IntegersOf(const Array& array, int64_t slice) {
  if (array.data == nullptr) return std::vector<int64_t>(static_cast<std::size_t>(array.slice_size()));
  switch (array.type) {
    case DataType::S8:
      return Widened<int8_t>(array, slice);
    case DataType::S16:
      return Widened<int16_t>(array, slice);
    case DataType::S32:
      return Widened<int32_t>(array, slice);
    case DataType::S64:
      return Widened<int64_t>(array, slice);
    case DataType::U8:
      return Widened<uint8_t>(array, slice);
    case DataType::U16:
      return Widened<uint16_t>(array, slice);
    case DataType::U32:
      return Widened<uint32_t>(array, slice);
    case DataType::U64:
      return Widened<uint64_t>(array, slice);
    default:
      throw Error(std::string(array.name) + ": expected integers");
  }
}

}  // namespace heed::jax
