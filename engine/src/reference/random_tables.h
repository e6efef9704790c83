// The tables behind options, with random numbers.
#ifndef HEED_REFERENCE_RANDOM_TABLES_H_
#define HEED_REFERENCE_RANDOM_TABLES_H_

#include <array>
#include <cstddef>
#include <list>
#include <random>
#include <vector>

#include "heed/element.h"
#include "heed/view.h"
#include "reference/cases.h"
#include "reference/normal.h"
#include "reference/scheme.h"
#include "reference/trial_arrays.h"

namespace heed::reference {

// Where tables lie.
template <class A>
struct TableMemory {
  std::list<std::vector<A>> real;
  std::list<std::vector<BFloat16>> narrow;
  std::list<std::vector<int64_t>> whole;
};

template <class A>
class RandomTables {
 public:
  // size: how large numbers are.
  RandomTables(Layout layout, Random& random, TableMemory<A>& memory, double size = 1.0)
      : layout_(layout), random_(random), memory_(memory), size_(size) {}

  Random& random() const { return random_; }

  // N(0, size), each changed in place afterwards; with gaps and in any order of the dimensions where the layout is random.
  template <std::size_t kRank, class Change>
  View<const A, static_cast<int>(kRank)> Make(const std::array<int64_t, kRank>& extent, const Change& change) {
    constexpr int kDimensions = static_cast<int>(kRank);
    const auto plain = View<const A, kDimensions>::Contiguous(nullptr, extent);
    Placement<kDimensions> place{plain.stride, 0, plain.size()};
    if (layout_ == Layout::kRandom) place = RandomPlacement<kDimensions>(extent, false, random_);
    std::vector<A>& numbers = memory_.real.emplace_back(static_cast<std::size_t>(place.size) + 1);
    Normal normal;
    for (A& x : numbers) x = static_cast<A>(size_ * normal(random_));
    for (A& x : numbers) change(x);
    return {numbers.data() + place.start, extent, place.stride};
  }
  template <std::size_t kRank>
  View<const A, static_cast<int>(kRank)> Make(const std::array<int64_t, kRank>& extent) {
    return Make(extent, [](A&) {});
  }
  // The numbers of the table that was made last, in bfloat16.
  template <int kRank>
  View<const BFloat16, kRank> Narrowed(const View<const A, kRank>& table) {
    const std::vector<A>& numbers = memory_.real.back();
    std::vector<BFloat16>& rounded = memory_.narrow.emplace_back();
    for (const A x : numbers) rounded.push_back(ToBFloat16(static_cast<float>(x)));
    return {rounded.data() + (table.data - numbers.data()), table.extent, table.stride};
  }
  // Numbers made entry by entry from number(index in each dimension).
  template <std::size_t kRank, class Number>
  View<const A, static_cast<int>(kRank)> MakeBy(const std::array<int64_t, kRank>& extent, const Number& number) {
    const auto view = Make(extent);
    A* const numbers = memory_.real.back().data() + (view.data - memory_.real.back().data());
    for (int64_t x = 0; x < view.size(); ++x) {
      std::array<int64_t, kRank> index{};
      int64_t rest = x, place = 0;
      for (std::size_t r = kRank; r-- > 0; rest /= extent[r]) {
        index[r] = rest % extent[r];
        place += index[r] * view.stride[r];
      }
      numbers[place] = static_cast<A>(number(index));
    }
    return view;
  }

  // Whole numbers, entry by entry from make(place in the order of the dimensions).
  template <std::size_t kRank, class Number>
  View<const int64_t, static_cast<int>(kRank)> MakeWhole(const std::array<int64_t, kRank>& extent, const Number& number) {
    const auto plain = View<const int64_t, static_cast<int>(kRank)>::Contiguous(nullptr, extent);
    std::vector<int64_t>& numbers = memory_.whole.emplace_back(static_cast<std::size_t>(plain.size()) + 1);
    for (std::size_t x = 0; x < numbers.size(); ++x) numbers[x] = number(static_cast<int64_t>(x));
    return {numbers.data(), plain.extent, plain.stride};
  }

 private:
  Layout layout_;
  Random& random_;
  TableMemory<A>& memory_;
  double size_;
};

}  // namespace heed::reference

#endif  // HEED_REFERENCE_RANDOM_TABLES_H_
