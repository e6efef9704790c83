// Cuts one block of memory into aligned arrays. Without memory behind it, an arena only counts what would be needed, so that
// the layout of a scratch area and its size are written once.
#ifndef HEED_CORE_ARENA_H_
#define HEED_CORE_ARENA_H_

#include <cstddef>
#include <cstdint>

#include "heed/workspace.h"

namespace heed::core {

class Arena {
 public:
  explicit Arena(std::byte* base = nullptr) : base_(base) {}

  template <class T>
  T* Take(int64_t count) {
    T* array = base_ ? reinterpret_cast<T*>(base_ + used_) : nullptr;
    constexpr std::size_t kAlign = Workspace::kAlignment;
    used_ += (static_cast<std::size_t>(count) * sizeof(T) + kAlign - 1) / kAlign * kAlign;
    return array;
  }

  std::size_t used() const { return used_; }

 private:
  std::byte* base_;
  std::size_t used_ = 0;
};

}  // namespace heed::core

#endif  // HEED_CORE_ARENA_H_
