// Where running layers leave their counts: operations by kind, multiply-adds by what they are for, and the memory of arrays.
#ifndef HEED_BOOK_COMPARISON_TALLY_H_
#define HEED_BOOK_COMPARISON_TALLY_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "book/comparison/position_set.h"

namespace heed::lab {

// What multiply-adds (products that go straight into a sum) are spent on. Terms grow differently with length and width, so they
// are never mixed.
enum class Term {
  kProjections,  // a position's own input times a matrix: all positions at once
  kConvolution,  // inputs in a window times their matrices
  kRecurrence,   // the state before times a matrix or a number per channel; a state that is a matrix, written and read
  kScores,       // queries times keys
  kSums,         // weights times values
  kElementwise,  // gates and norms
};
inline constexpr std::size_t kTerms = 6;
using Products = std::array<int64_t, kTerms>;  // multiply-adds by term

// Scalar operations that are no multiply-adds. A subtraction is an addition.
struct Operations {
  int64_t multiplications = 0, additions = 0, divisions = 0, comparisons = 0;
  int64_t exponentials = 0, sigmoids = 0, hyperbolic_tangents = 0, softpluses = 0, inverse_roots = 0;

  bool operator==(const Operations&) const = default;
};

struct Tally {
  Products products{};
  Operations operations;
  int64_t held = 0, peak = 0;                 // numbers in Activations, now and at most
  std::vector<PositionSet>* reads = nullptr;  // per position, the states that its new state was computed from
};
inline constinit thread_local Tally thread_tally;

// Counts what this thread does between construction and destruction; an outer recording does not see it. Activations made
// meanwhile must end before it does.
class Recording {
 public:
  explicit Recording(std::vector<PositionSet>* reads = nullptr) : outer_(std::exchange(thread_tally, Tally{})) {
    thread_tally.reads = reads;
  }
  ~Recording() { thread_tally = outer_; }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  const Tally& tally() const { return thread_tally; }

 private:
  Tally outer_;
};

// Memory whose size in numbers, not in bytes, is kept in the tally.
template <class Scalar>
struct TalliedAllocator {
  using value_type = Scalar;

  TalliedAllocator() = default;
  template <class Other>
  explicit TalliedAllocator(const TalliedAllocator<Other>&) {}

  Scalar* allocate(std::size_t count) {
    Scalar* memory = std::allocator<Scalar>().allocate(count);
    thread_tally.held += static_cast<int64_t>(count);
    thread_tally.peak = std::max(thread_tally.peak, thread_tally.held);
    return memory;
  }
  void deallocate(Scalar* memory, std::size_t count) {
    thread_tally.held -= static_cast<int64_t>(count);
    std::allocator<Scalar>().deallocate(memory, count);
  }
  bool operator==(const TalliedAllocator&) const { return true; }
};

// What a layer computes and keeps: its outputs and everything on the way that is an array.
template <class Scalar>
using Activations = std::vector<Scalar, TalliedAllocator<Scalar>>;

}  // namespace heed::lab

#endif  // HEED_BOOK_COMPARISON_TALLY_H_
