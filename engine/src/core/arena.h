// Cuts one block of memory into aligned arrays. Without memory behind it, an arena only counts what would be needed, so that
// the layout of a scratch area and its size are written once.
#ifndef HEED_CORE_ARENA_H_
#define HEED_CORE_ARENA_H_

#include <cstddef>
#include <cstdint>

#include "core/checked_integer.h"
#include "heed/workspace.h"

namespace heed::core {

class Arena {
 public:
  explicit Arena(std::byte* base = nullptr) : base_(base) {}

  // As many elements as the product of the counts. Counting throws InvalidArgument when that does not fit; hand over as
  // separate counts what comes from separate arguments. With memory behind it nothing is checked: the same layout was counted
  // before.
  template <class T, class... Counts>
  T* Take(Counts... counts) {
    constexpr int64_t kAlign = Workspace::kAlignment;
    if (base_) {
      T* array = reinterpret_cast<T*>(base_ + used_);
      const int64_t bytes = (static_cast<int64_t>(sizeof(T)) * ... * int64_t{counts});
      used_ += (bytes + kAlign - 1) / kAlign * kAlign;
      return array;
    }
    int64_t bytes = sizeof(T);
    ((bytes = CheckedProduct(bytes, counts, kName)), ...);
    used_ = CheckedSum(used_, CheckedSum(bytes, kAlign - 1, kName) / kAlign * kAlign, kName);
    return nullptr;
  }

  // As many for each of several arrays, one after the other.
  template <class... T>
  void TakeEach(int64_t count, T*&... arrays) {
    ((arrays = Take<T>(count)), ...);
  }

  std::size_t used() const { return static_cast<std::size_t>(used_); }

 private:
  static constexpr const char* kName = "workspace";
  std::byte* base_;
  int64_t used_ = 0;
};

}  // namespace heed::core

#endif  // HEED_CORE_ARENA_H_
