// One call of a handler: arrays by name, dense and row-major, behind the dimensions that jax.vmap mapped, and a slice of them
// at a time as the engine takes it.
#ifndef HEED_PYTHON_SRC_JAX_CALL_H_
#define HEED_PYTHON_SRC_JAX_CALL_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "heed/element.h"
#include "heed/error.h"
#include "heed/view.h"
#include "settings.h"
#include "xla/ffi/api/ffi.h"

namespace heed::jax {

using xla::ffi::DataType;

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

struct Array {
  std::string_view name;
  DataType type = DataType::INVALID;
  std::byte* data = nullptr;         // null: the array is only described, and all that is read of it is 0
  std::vector<int64_t> mapped = {};  // extents of what is mapped, outermost first; 1 where this array is not
  std::vector<int64_t> extent = {};  // of a slice
  int64_t repeats = 1;               // how often the rows of a slice are read one set after the other

  // Throws Error for another number of dimensions, as a caller's own scheme may give its tables.
  template <int Rank>
  std::array<int64_t, Rank> Extent() const {
    if (extent.size() != Rank) throw Error(std::string(name) + ": expected " + std::to_string(Rank) + " dimensions");
    std::array<int64_t, Rank> own{};
    std::ranges::copy(extent, own.begin());
    return own;
  }
};

// Views of arrays that are not there are absent. They refer to one slice, and to numbers that the call holds until its next
// one.
class Call {
 public:
  // Lists name XLA's arguments and results and give their ranks without what is mapped, "query:4 key:4 lengths:2". The texts
  // must outlive the call.
  Call(const xla::ffi::RemainingArgs& arguments, const xla::ffi::RemainingRets& results, std::string_view operand_list,
       std::string_view result_list, std::string_view settings_text);
  // Of arrays without memory, "query:float32:2,4,6,16 key_lengths:int32:2,1", and no results.
  Call(std::string_view described, std::string_view settings_text);

  const Settings settings;

  // What is mapped as further batch rows, where each slice then computes what it would compute alone.
  void FoldIntoBatch();

  // Calls run() for one slice after the other: what each computes does not depend on the others.
  template <class Run>
  void ForEachSlice(const Run& run) {
    int64_t count = 1;
    for (const int64_t extent : mapped_) count *= extent;
    for (slice_ = 0; slice_ < count; ++slice_) {
      numbers_.clear();
      run();
    }
  }

  const Array* Find(std::string_view name) const { return Found(inputs_, name); }
  const Array* FindResult(std::string_view name) const { return Found(results_, name); }

  // Views of arguments are those of constant elements, and of results those of others. Throws Error for an array of another
  // type, as a caller's own scheme may return.
  template <class T, int Rank>
  View<T, Rank> Dense(std::string_view name) const {
    const Array* array = Found<T>(name);
    if (array == nullptr) return {};
    if (array->type != kDataType<std::remove_const_t<T>>) throw Error(std::string(name) + ": an array of another type is read");
    auto view = View<T, Rank>::Contiguous(reinterpret_cast<T*>(AddressOf(*array)), array->Extent<Rank>());
    if (array->data == nullptr) view.stride = {};
    return view;
  }
  // [B, H, N, D] of an array [B, H, N, D], of one [B, N, H, D] where the settings say "steps_first", and of packed ones [T, H,
  // D].
  template <class T>
  View<T, 4> Tokens(std::string_view name) const {
    if (const Array* array = Found<T>(name); array != nullptr && array->extent.size() == 3) {
      const View<T, 3> tokens = Dense<T, 3>(name);
      return {tokens.data,
              {1, tokens.extent[1], tokens.extent[0], tokens.extent[2]},
              {0, tokens.stride[1], tokens.stride[0], tokens.stride[2]}};
    }
    View<T, 4> view = Dense<T, 4>(name);
    if (settings.Flag("steps_first")) {
      std::swap(view.extent[1], view.extent[2]);
      std::swap(view.stride[1], view.stride[2]);
    }
    return view;
  }
  // [B, H, N] of an array [B, H, N], and of packed ones [T, H].
  template <class T>
  View<T, 3> Rows(std::string_view name) const {
    if (const Array* array = Found<T>(name); array == nullptr || array->extent.size() == 3) return Dense<T, 3>(name);
    const View<T, 2> rows = Dense<T, 2>(name);
    return {rows.data, {1, rows.extent[1], rows.extent[0]}, {0, rows.stride[1], rows.stride[0]}};
  }

  // The numbers of an array of any integer type, as often as `repeats` says; as many zeros where the array is only described.
  // Throws InvalidArgument for numbers from 2^63 on.
  std::vector<int64_t>& Numbers(const Array& array);
  template <int Rank>
  View<const int64_t, Rank> Integers(std::string_view name) {
    const Array* array = Find(name);
    if (array == nullptr) return {};
    std::array<int64_t, Rank> extent = array->Extent<Rank>();
    extent[0] *= array->repeats;
    return View<const int64_t, Rank>::Contiguous(Numbers(*array).data(), extent);
  }
  // Memory for as many numbers, with an address where there are none.
  std::vector<int64_t>& Room(int64_t count);

 private:
  static const Array* Found(const std::vector<Array>& arrays, std::string_view name) {
    const auto found = std::ranges::find(arrays, name, &Array::name);
    return found == arrays.end() ? nullptr : &*found;
  }
  template <class T>
  const Array* Found(std::string_view name) const {
    return Found(std::is_const_v<T> ? inputs_ : results_, name);
  }
  // Where a slice begins. Never null, because a view without an address means "absent".
  std::byte* AddressOf(const Array& array) const;
  void Map(const std::vector<Array>& arrays);

  std::vector<Array> inputs_, results_;
  std::vector<int64_t> mapped_;  // extents of all that is mapped, of which slice_ is an index
  int64_t slice_ = 0;
  std::deque<std::vector<int64_t>> numbers_;
};

// Calls run(T{}) with the engine's type for elements.
template <class Run>
void WithElementType(DataType type, const Run& run) {
  switch (type) {
    case DataType::F32:
      return run(float{});
    case DataType::F64:
      return run(double{});
    case DataType::BF16:
      return run(BFloat16{});
    case DataType::F16:
      return run(Float16{});
    default:
      throw InvalidArgument("expected float32, float64, bfloat16 or float16");
  }
}

enum Status { kDone = 0, kInvalidArgument = 1, kFailed = 2, kOutOfMemory = 3 };

// What the last call of this thread that failed has to say.
std::string& Message();

// The kind of what f throws.
template <class F>
Status Told(const F& f) noexcept {
  try {
    f();
    return kDone;
  } catch (const InvalidArgument& error) {
    Message() = error.what();
    return kInvalidArgument;
  } catch (const std::bad_alloc&) {
    Message() = "heed: out of memory";
    return kOutOfMemory;
  } catch (const std::exception& error) {
    Message() = error.what();
    return kFailed;
  }
}

template <auto kCompute>
xla::ffi::Error Handle(xla::ffi::RemainingArgs arguments, xla::ffi::RemainingRets results, std::string_view operands,
                       std::string_view result_list, std::string_view settings) {
  using xla::ffi::Error, xla::ffi::ErrorCode;
  constexpr ErrorCode kCodes[] = {ErrorCode::kOk, ErrorCode::kInvalidArgument, ErrorCode::kInternal,
                                  ErrorCode::kResourceExhausted};
  const Status status = Told([&] {
    Call call(arguments, results, operands, result_list, settings);
    kCompute(call);
  });
  return status == kDone ? Error::Success() : Error(kCodes[status], Message());
}

inline auto Binding() {
  return xla::ffi::Ffi::Bind()
      .RemainingArgs()
      .RemainingRets()
      .Attr<std::string_view>("operands")
      .Attr<std::string_view>("results")
      .Attr<std::string_view>("settings");
}

}  // namespace heed::jax

// Defines the handler that XLA finds by the symbol `name`; it computes void compute(Call&).
#define HEED_JAX_HANDLER(name, compute)                                                      \
  extern "C" __attribute__((visibility("default"))) XLA_FFI_Error* name(XLA_FFI_CallFrame*); \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(name, heed::jax::Handle<compute>, heed::jax::Binding())

#endif  // HEED_PYTHON_SRC_JAX_CALL_H_
