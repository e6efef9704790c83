// Arrays that begin with a cache line, as tensors of frameworks do. Kernels store whole vectors straight into such arrays.
#ifndef HEED_REFERENCE_LINE_ARRAY_H_
#define HEED_REFERENCE_LINE_ARRAY_H_

#include <cstddef>
#include <new>
#include <vector>

namespace heed::reference {

template <class T>
struct LineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kLine{64};

  LineAllocator() = default;
  template <class Other>
  explicit LineAllocator(const LineAllocator<Other>&) {}

  T* allocate(std::size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), kLine)); }
  void deallocate(T* data, std::size_t) { ::operator delete(data, kLine); }
  bool operator==(const LineAllocator&) const { return true; }
};

template <class T>
using LineArray = std::vector<T, LineAllocator<T>>;

}  // namespace heed::reference

#endif  // HEED_REFERENCE_LINE_ARRAY_H_
