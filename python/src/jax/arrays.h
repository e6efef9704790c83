// The arrays of a call as XLA hands them over: by name, dense and row-major, behind the dimensions that jax.vmap mapped.
#ifndef HEED_PYTHON_SRC_JAX_ARRAYS_H_
#define HEED_PYTHON_SRC_JAX_ARRAYS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "heed/element.h"
#include "heed/view.h"
#include "xla/ffi/api/ffi.h"

namespace heed::jax {

using xla::ffi::DataType;

struct Array {
  std::string_view name;
  DataType type = DataType::INVALID;
  std::byte* data = nullptr;    // null: the array is only described, and all that is read of it is 0
  std::vector<int64_t> mapped;  // extents of what is mapped, outermost first; 1 where this array is not
  std::vector<int64_t> extent;  // of a slice
  int64_t repeats = 1;          // how often the rows of a slice are read one set after the other

  int64_t slice_size() const;
  std::string ShapeText() const;  // of a slice, "[2, 3, 4]"
};

class Arrays {
 public:
  Arrays() = default;
  // XLA's arguments or results. The list names them and gives their ranks without what is mapped, "query:4 key:4 lengths:2". It
  // must outlive the arrays. Throws Error where they do not fit each other.
  Arrays(const xla::ffi::RemainingArgs& arguments, std::string_view list);
  Arrays(const xla::ffi::RemainingRets& results, std::string_view list);
  // Arrays without memory: "query:float32:2,4,6,16 key_lengths:int32:2,1".
  static Arrays Described(std::string_view list);

  const Array* Find(std::string_view name) const;
  const Array& Get(std::string_view name) const;  // throws Error where there is none
  bool Has(std::string_view name) const { return Find(name) != nullptr; }
  const std::vector<Array>& all() const { return arrays_; }
  std::vector<Array>& all() { return arrays_; }

 private:
  std::vector<Array> arrays_;
};

// One index over all that is mapped.
class Slices {
 public:
  // Widens to what is mapped of these arrays. Throws Error where their mapped dimensions do not broadcast.
  void Cover(const Arrays& arrays);
  int64_t count() const;
  // Which of an array's own slices belongs to slice `index` of all.
  int64_t IndexIn(const Array& array, int64_t index) const;
  bool AllIn(const Array& array) const { return array.mapped == extent_; }

 private:
  std::vector<int64_t> extent_;
};

template <class T>
inline constexpr DataType kDataType = DataType::INVALID;
template <>
inline constexpr DataType kDataType<float> = DataType::F32;
template <>
inline constexpr DataType kDataType<double> = DataType::F64;
template <>
inline constexpr DataType kDataType<BFloat16> = DataType::BF16;
template <>
inline constexpr DataType kDataType<Float16> = DataType::F16;
template <>
inline constexpr DataType kDataType<int32_t> = DataType::S32;
template <>
inline constexpr DataType kDataType<bool> = DataType::PRED;

// Throws Error unless the slices have this type and rank.
void CheckSlices(const Array& array, DataType type, std::size_t rank);

// Where a slice begins. Never null, because a view without an address means "absent".
std::byte* AddressOf(const Array& array, int64_t slice, std::size_t element_bytes);

// Slice `slice` of the array's own.
template <class T, int Rank>
View<T, Rank> ViewOf(const Array& array, int64_t slice) {
  CheckSlices(array, kDataType<std::remove_const_t<T>>, Rank);
  std::array<int64_t, Rank> extent{};
  std::copy_n(array.extent.begin(), Rank, extent.begin());
  auto view = View<T, Rank>::Contiguous(reinterpret_cast<T*>(AddressOf(array, slice, sizeof(T))), extent);
  if (array.data == nullptr) view.stride = {};
  return view;
}

// The numbers of a slice of any integer type, as often as `repeats` says; as many zeros where the array is only described.
// Throws InvalidArgument for numbers from 2^63 on.
std::vector<int64_t> IntegersOf(const Array& array, int64_t slice);

}  // namespace heed::jax

#endif  // HEED_PYTHON_SRC_JAX_ARRAYS_H_
