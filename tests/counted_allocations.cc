#include "tests/counted_allocations.h"

#include <cstdlib>
#include <new>

#if HEED_COUNTS_ALLOCATIONS
// Inlined on one side only, they would show the compiler memory of malloc() in operator delete, or of operator new in free(),
// which it warns of.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++allocations;
  allocated_bytes += static_cast<int64_t>(bytes);
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
// The workspace asks for aligned memory, which is another operator.
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
  ++allocations;
  allocated_bytes += static_cast<int64_t>(bytes);
  const auto unit = static_cast<std::size_t>(alignment);
  if (void* memory = std::aligned_alloc(unit, (bytes + unit) / unit * unit)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
#endif
