// Counts what operator new gives, for tests of what a call allocates: counted_allocations.cc, in their program, replaces it.
#ifndef HEED_TESTS_COUNTED_ALLOCATIONS_H_
#define HEED_TESTS_COUNTED_ALLOCATIONS_H_

#include <atomic>
#include <cstdint>

// The sanitizers bring an operator new of their own.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HEED_COUNTS_ALLOCATIONS 0
#else
#define HEED_COUNTS_ALLOCATIONS 1
#endif

inline std::atomic<int64_t> allocations{0}, allocated_bytes{0};

#endif  // HEED_TESTS_COUNTED_ALLOCATIONS_H_
