// A view of the elements of a dense or strided array. It owns nothing.
#ifndef HEED_VIEW_H_
#define HEED_VIEW_H_

#include <array>
#include <cstdint>
#include <type_traits>

namespace heed {

// Element (i0, i1, ...) lies at data[i0 * stride[0] + i1 * stride[1] + ...].
//   extent  number of elements in each dimension, >= 0
//   stride  distance in elements (not bytes) between neighbours in each dimension; any sign, 0 repeats
// A default-constructed view (data == nullptr) means "absent" wherever an argument is optional.
template <class T, int Rank>
struct View {
  T* data = nullptr;
  std::array<int64_t, Rank> extent{};
  std::array<int64_t, Rank> stride{};

  // The view of a row-major array without gaps.
  static View Contiguous(T* data, const std::array<int64_t, Rank>& extent) {
    View view{data, extent, {}};
    int64_t step = 1;
    for (int r = Rank - 1; r >= 0; --r) {
      view.stride[r] = step;
      step *= extent[r];
    }
    return view;
  }

  bool present() const { return data != nullptr; }

  int64_t size() const {
    int64_t n = 1;
    for (int64_t e : extent) n *= e;
    return n;
  }

  template <class... Index>
  T& operator()(Index... index) const {
    static_assert(sizeof...(Index) == Rank);
    const std::array<int64_t, Rank> at{static_cast<int64_t>(index)...};
    int64_t offset = 0;
    for (int r = 0; r < Rank; ++r) offset += at[r] * stride[r];
    return data[offset];
  }

  // A view of mutable elements converts to a view of constant ones.
  operator View<const T, Rank>() const
    requires(!std::is_const_v<T>)
  {
    return {data, extent, stride};
  }
};

}  // namespace heed

#endif  // HEED_VIEW_H_
