// One call of a handler, and a slice of it as the engine takes it.
#ifndef HEED_PYTHON_SRC_JAX_CALL_H_
#define HEED_PYTHON_SRC_JAX_CALL_H_

#include <cstdint>
#include <exception>
#include <new>
#include <string_view>
#include <utility>

#include "arrays.h"
#include "heed/error.h"
#include "heed/view.h"
#include "settings.h"
#include "xla/ffi/api/ffi.h"

namespace heed::jax {

struct Call {
  Settings settings;
  Arrays inputs, results;
  Slices slices;

  Call(const xla::ffi::RemainingArgs& arguments, const xla::ffi::RemainingRets& given_results, std::string_view operands,
       std::string_view result_list, std::string_view settings_text);
  // Of arrays without memory, and no results.
  Call(std::string_view described, std::string_view settings_text);
};

// What is mapped as further batch rows, where each slice then computes what it would compute alone.
void FoldIntoBatch(Call& call);

// Slice `index` of a call. Views of arrays that are not there are absent.
class CallSlice {
 public:
  CallSlice(const Call& call, int64_t index) : call_(call), index_(index) {}

  const Settings& settings() const { return call_.settings; }
  const Array* Find(std::string_view name) const { return call_.inputs.Find(name); }
  const Array& Get(std::string_view name) const { return call_.inputs.Get(name); }
  bool Returns(std::string_view name) const { return call_.results.Has(name); }

  template <class T, int Rank>
  View<const T, Rank> Input(std::string_view name) const {
    return ViewIn<const T, Rank>(call_.inputs, name);
  }
  template <class T, int Rank>
  View<T, Rank> Result(std::string_view name) const {
    return ViewIn<T, Rank>(call_.results, name);
  }
  // [B, H, N, D] of an array [B, H, N, D], of one [B, N, H, D] where the settings say "steps_first", and of packed ones [T, H,
  // D].
  template <class T>
  View<const T, 4> TokensIn(std::string_view name) const {
    return Tokens<const T>(call_.inputs, name);
  }
  template <class T>
  View<T, 4> TokensOut(std::string_view name) const {
    return Tokens<T>(call_.results, name);
  }
  // [B, H, N] of an array [B, H, N], and of packed ones [T, H].
  template <class T>
  View<const T, 3> RowsIn(std::string_view name) const {
    return Rows<const T>(call_.inputs, name);
  }
  template <class T>
  View<T, 3> RowsOut(std::string_view name) const {
    return Rows<T>(call_.results, name);
  }
  // See arrays.h.
  std::vector<int64_t> Integers(const Array& array) const { return IntegersOf(array, IndexIn(array)); }

 private:
  int64_t IndexIn(const Array& array) const { return call_.slices.IndexIn(array, index_); }

  template <class T, int Rank>
  View<T, Rank> ViewIn(const Arrays& arrays, std::string_view name) const {
    const Array* array = arrays.Find(name);
    return array == nullptr ? View<T, Rank>{} : ViewOf<T, Rank>(*array, IndexIn(*array));
  }
  template <class T>
  View<T, 4> Tokens(const Arrays& arrays, std::string_view name) const {
    const Array* array = arrays.Find(name);
    if (array != nullptr && array->extent.size() == 3) {
      const View<T, 3> tokens = ViewIn<T, 3>(arrays, name);
      return {tokens.data,
              {1, tokens.extent[1], tokens.extent[0], tokens.extent[2]},
              {0, tokens.stride[1], tokens.stride[0], tokens.stride[2]}};
    }
    View<T, 4> view = ViewIn<T, 4>(arrays, name);
    if (settings().Flag("steps_first")) {
      std::swap(view.extent[1], view.extent[2]);
      std::swap(view.stride[1], view.stride[2]);
    }
    return view;
  }
  template <class T>
  View<T, 3> Rows(const Arrays& arrays, std::string_view name) const {
    const Array* array = arrays.Find(name);
    if (array == nullptr || array->extent.size() == 3) return ViewIn<T, 3>(arrays, name);
    const View<T, 2> rows = ViewIn<T, 2>(arrays, name);
    return {rows.data, {1, rows.extent[1], rows.extent[0]}, {0, rows.stride[1], rows.stride[0]}};
  }

  const Call& call_;
  int64_t index_;
};

// Calls run(slice) for one slice after the other: what each computes does not depend on the others.
template <class Run>
void ForEachSlice(const Call& call, const Run& run) {
  for (int64_t index = 0; index < call.slices.count(); ++index) run(CallSlice(call, index));
}

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

// Calls f; what it throws becomes an error of XLA's with the same words.
template <class F>
xla::ffi::Error Guarded(const F& f) noexcept {
  using xla::ffi::Error;
  using xla::ffi::ErrorCode;
  try {
    f();
    return Error::Success();
  } catch (const InvalidArgument& error) {
    return Error(ErrorCode::kInvalidArgument, error.what());
  } catch (const std::bad_alloc&) {
    return Error(ErrorCode::kResourceExhausted, "heed: out of memory");
  } catch (const std::exception& error) {
    return Error(ErrorCode::kInternal, error.what());
  } catch (...) {
    return Error(ErrorCode::kInternal, "heed: an error of unknown kind");
  }
}

inline auto Binding() {
  return xla::ffi::Ffi::Bind()
      .RemainingArgs()
      .RemainingRets()
      .Attr<std::string_view>("operands")
      .Attr<std::string_view>("results")
      .Attr<std::string_view>("settings");
}

template <void (*kCompute)(Call&)>
xla::ffi::Error Handle(xla::ffi::RemainingArgs arguments, xla::ffi::RemainingRets results, std::string_view operands,
                       std::string_view result_list, std::string_view settings) {
  return Guarded([&] {
    Call call(arguments, results, operands, result_list, settings);
    kCompute(call);
  });
}

}  // namespace heed::jax

// Defines the handler that XLA finds by the symbol `name`; it computes void compute(Call&).
#define HEED_JAX_HANDLER(name, compute)                                                      \
  extern "C" __attribute__((visibility("default"))) XLA_FFI_Error* name(XLA_FFI_CallFrame*); \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(name, heed::jax::Handle<compute>, heed::jax::Binding())

#endif  // HEED_PYTHON_SRC_JAX_CALL_H_
