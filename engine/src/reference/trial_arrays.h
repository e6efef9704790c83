// The arrays of a trial: random numbers in the layouts of a case, beside the same numbers as contiguous doubles.
#ifndef HEED_REFERENCE_TRIAL_ARRAYS_H_
#define HEED_REFERENCE_TRIAL_ARRAYS_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

#include "heed/element.h"
#include "heed/view.h"
#include "reference/cases.h"
#include "reference/line_array.h"
#include "reference/normal.h"
#include "reference/random_cases.h"

namespace heed::reference {

template <class T>
T Rounded(double value) {
  if constexpr (std::is_same_v<T, BFloat16>) return ToBFloat16(static_cast<float>(value));
  if constexpr (std::is_same_v<T, Float16>) return ToFloat16(static_cast<float>(value));
  if constexpr (std::is_floating_point_v<T>) return static_cast<T>(value);
}

template <class T>
double Exact(T value) {
  if constexpr (std::is_floating_point_v<T>) return static_cast<double>(value);
  if constexpr (!std::is_floating_point_v<T>) return static_cast<double>(ToFloat(value));
}

// The spacing at 1.
template <class T>
double Epsilon() {
  if constexpr (std::is_same_v<T, BFloat16>) return 0x1p-7;
  if constexpr (std::is_same_v<T, Float16>) return 0x1p-10;
  if constexpr (std::is_floating_point_v<T>) return std::numeric_limits<T>::epsilon();
}

// The smallest number that the type rounds to.
template <class T>
double Smallest() {
  if constexpr (std::is_same_v<T, BFloat16>) return 0x1p-133;
  if constexpr (std::is_same_v<T, Float16>) return 0x1p-24;
  if constexpr (std::is_floating_point_v<T>) return std::numeric_limits<T>::denorm_min();
}

// The smallest number that a 16-bit type rounds to infinity.
template <class T>
double Overflow() {
  return std::is_same_v<T, BFloat16> ? 0x1.FFp127 : 65520.0;
}

// What an array is for: inputs may repeat elements, and keys and values may serve all rows of a batch.
enum class Role { kInput, kKeyInput, kOutput };

// Where the elements of an array lie in memory of `size` elements.
template <int Rank>
struct Placement {
  std::array<int64_t, Rank> stride;
  int64_t start, size;
};

// Dimensions in any order, one of them with gaps, each forwards or backwards or, where elements may repeat, with stride 0.
template <int Rank>
Placement<Rank> RandomPlacement(const std::array<int64_t, Rank>& extent, bool repeats, std::mt19937_64& random) {
  std::array<std::size_t, Rank> order;
  std::iota(order.begin(), order.end(), std::size_t{0});
  Shuffle(order.begin(), order.end(), random);
  const std::size_t gap = random() % Rank;
  Placement<Rank> place{{}, 0, 1};
  for (std::size_t r : order) {
    const uint64_t kind = random() % 8;
    if (repeats && kind == 0) continue;
    const int64_t step = r == gap ? 2 * place.size : place.size;
    place.stride[r] = kind < 3 ? -step : step;
    if (kind < 3) place.start += std::max<int64_t>(0, extent[r] - 1) * step;
    place.size = step * std::max<int64_t>(1, extent[r]);
  }
  return place;
}

inline Placement<4> Place(const std::array<int64_t, 4>& extent, Layout layout, Role role, std::mt19937_64& random) {
  if (layout == Layout::kRandom) return RandomPlacement<4>(extent, role != Role::kOutput, random);
  const auto [batch, heads, length, width] = extent;
  Placement<4> place{{heads * length * width, length * width, width, 1}, 0, 2 * batch * heads * length * width};
  auto& stride = place.stride;
  if (layout == Layout::kHeadsInside) stride = {length * heads * width, width, heads * width, 1};
  if (layout == Layout::kSpread) stride = {2 * heads * length * width, 2 * length * width, 2 * width, 2};
  if (layout == Layout::kBackwards) {
    stride[2] = -width;
    place.start = 1 + std::max<int64_t>(0, (length - 1) * width);  // and not at a line's begin
  }
  if (layout == Layout::kShared && role == Role::kKeyInput) stride[0] = 0;
  return place;
}

// The elements of an array in the order of its dimensions.
template <class T>
std::vector<double> InOrder(const View<const T, 4>& view) {
  std::vector<double> exact;
  for (int64_t b = 0; b < view.extent[0]; ++b)
    for (int64_t h = 0; h < view.extent[1]; ++h)
      for (int64_t i = 0; i < view.extent[2]; ++i)
        for (int64_t c = 0; c < view.extent[3]; ++c) exact.push_back(Exact(view(b, h, i, c)));
  return exact;
}

template <class T>
struct Input {
  LineArray<T> memory;
  View<const T, 4> view;
  std::vector<double> exact;

  View<const double, 4> Doubles() const { return View<const double, 4>::Contiguous(exact.data(), view.extent); }
};

// N(0, 1), rounded to T. Where all elements of a row are one, it is smaller by the fourth root of their number, so that the
// product of two such rows is no larger than that of others.
template <class T>
Input<T> MakeInput(const std::array<int64_t, 4>& extent, Layout layout, Role role, std::mt19937_64& random) {
  const Placement<4> place = Place(extent, layout, role, random);
  Input<T> input;
  input.memory.resize(static_cast<size_t>(place.size) + 1);
  Normal normal;
  const auto repeated = static_cast<double>(std::max<int64_t>(1, extent[3]));
  const double size = place.stride[3] == 0 ? 1 / std::sqrt(std::sqrt(repeated)) : 1.0;
  for (T& value : input.memory) value = Rounded<T>(size * normal(random));
  input.view = {input.memory.data() + place.start, extent, place.stride};
  input.exact = InOrder(input.view);
  if (input.exact.empty()) input.exact.push_back(0);  // an address for views without elements
  return input;
}

// NaN where nothing was written yet.
template <class T>
struct Output {
  LineArray<T> memory;
  View<T, 4> view;

  Output(const std::array<int64_t, 4>& extent, Layout layout, std::mt19937_64& random) {
    const Placement<4> place = Place(extent, layout, Role::kOutput, random);
    memory.assign(static_cast<size_t>(place.size) + 1, Rounded<T>(std::numeric_limits<double>::quiet_NaN()));
    view = {memory.data() + place.start, extent, place.stride};
  }

  std::vector<double> Exact() const { return InOrder<T>(view); }
};

// An output without gaps, of any rank.
template <class T>
struct Numbers {
  std::vector<T> memory;

  template <std::size_t Rank>
  View<T, static_cast<int>(Rank)> Make(const std::array<int64_t, Rank>& extent) {
    int64_t size = 1;
    for (int64_t e : extent) size *= e;
    memory.assign(static_cast<size_t>(size) + 1, std::numeric_limits<T>::quiet_NaN());
    return View<T, static_cast<int>(Rank)>::Contiguous(memory.data(), extent);
  }
  std::vector<double> Exact() const { return {memory.begin(), memory.end()}; }
};

}  // namespace heed::reference

#endif  // HEED_REFERENCE_TRIAL_ARRAYS_H_
