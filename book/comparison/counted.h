// A scalar that remembers how it came about: it carries a double, and a layer that runs on it leaves behind how
// many operations it did, how long its longest chain of dependent operations was and, on request, which positions
// each state was computed from.
#ifndef HEED_BOOK_COMPARISON_COUNTED_H_
#define HEED_BOOK_COMPARISON_COUNTED_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <boost/dynamic_bitset.hpp>

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
inline constexpr const char* kTermNames[] = {"projections",    "convolution products", "recurrence products",
                                             "score products", "weighted sums",        "elementwise products"};
using Products = std::array<int64_t, std::size(kTermNames)>;  // multiply-adds by term

// Scalar operations that are no multiply-adds. A subtraction is an addition.
struct Operations {
  int64_t multiplications = 0, additions = 0, divisions = 0, comparisons = 0;
  int64_t exponentials = 0, sigmoids = 0, hyperbolic_tangents = 0, softpluses = 0, inverse_roots = 0;

  bool operator==(const Operations&) const = default;
};

using Positions = boost::dynamic_bitset<uint64_t>;  // a set of them, as large as there are positions

// Where running layers leave their counts.
struct Tally {
  Products products{};
  Operations operations;
  int64_t held = 0, peak = 0;               // numbers in Activations, now and at most
  std::vector<Positions>* reads = nullptr;  // per position, the states that its new state was computed from; null: untraced
};
inline constinit thread_local Tally thread_tally;

// Counts what this thread does between construction and destruction; an outer recording does not see it. Activations made
// meanwhile must end before it does. With `reads`, a set for each position, scalars carry positions too.
class Recording {
 public:
  explicit Recording(std::vector<Positions>* reads = nullptr) : outer_(std::exchange(thread_tally, Tally{})) {
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

// The longest chain of dependent operations that ends in a scalar, in three units.
struct Depth {
  // States of positions: what a position holds at the end of a layer, or of one turn of a recurrence, is one step after the
  // latest state that it read. This is the unit of "sequential operations" in tables that compare layers.
  int32_t steps = 0;
  // Operations, a whole reduction (inner product, sum, maximum) being one.
  int32_t rounds = 0;
  // Operations, a reduction of m terms taking ceil(log2(m)) as a balanced tree does: the span on a PRAM.
  int32_t span = 0;

  void Raise(const Depth& other) {
    steps = std::max(steps, other.steps);
    rounds = std::max(rounds, other.rounds);
    span = std::max(span, other.span);
  }
  bool operator==(const Depth&) const = default;
};

constexpr int32_t CeilLog2(int64_t terms) { return terms <= 1 ? 0 : static_cast<int32_t>(std::bit_width(uint64_t(terms - 1))); }

// The positions behind a scalar, exactly and structurally: a term counts even where its value happens to be zero.
struct Origin {
  Positions reads;   // those whose states this value was computed from, since the last state on its way
  Positions inputs;  // those of the layer's input that this value depends on at all

  bool Holds(const Origin& other) const { return other.reads.is_subset_of(reads) && other.inputs.is_subset_of(inputs); }
};

class Counted;

// A factor of an inner product: number (r, c) lies at first[r * row_stride + c * stride].
struct Operand {
  const Counted* first;
  int64_t stride = 1, row_stride = 0;
};

// The sum over all rows and columns of a * b: multiply-adds, and one reduction.
Counted Dot(Term term, const Operand& a, const Operand& b, int64_t columns, int64_t rows = 1);

class Counted {
 public:
  Counted(double value = 0) : value_(value) {}  // a constant or a weight: at depth 0, from no position

  static Counted Input(double value, int64_t position) {
    Counted input(value);
    if (thread_tally.reads) input.origin_ = std::make_shared<Origin>(Origin{Only(position), Only(position)});
    return input;
  }

  double value() const { return value_; }
  const Depth& depth() const { return depth_; }
  const Origin* origin() const { return origin_.get(); }  // null for none

  friend Counted operator+(Counted a, const Counted& b) {
    a.Include(b);
    return a.Finish(a.value_ + b.value_, &Operations::additions);
  }
  friend Counted operator-(Counted a, const Counted& b) {
    a.Include(b);
    return a.Finish(a.value_ - b.value_, &Operations::additions);
  }
  friend Counted operator*(Counted a, const Counted& b) {
    a.Include(b);
    return a.Finish(a.value_ * b.value_, &Operations::multiplications);
  }
  friend Counted operator/(Counted a, const Counted& b) {
    a.Include(b);
    return a.Finish(a.value_ / b.value_, &Operations::divisions);
  }
  friend Counted Exp(Counted a) { return a.Finish(std::exp(a.value_), &Operations::exponentials); }
  friend Counted Sigmoid(Counted a) { return a.Finish(1 / (1 + std::exp(-a.value_)), &Operations::sigmoids); }
  friend Counted Tanh(Counted a) { return a.Finish(std::tanh(a.value_), &Operations::hyperbolic_tangents); }
  friend Counted Softplus(Counted a) {  // as PyTorch's
    return a.Finish(a.value_ > 20 ? a.value_ : std::log1p(std::exp(a.value_)), &Operations::softpluses);
  }
  friend Counted InverseRoot(Counted a) { return a.Finish(1 / std::sqrt(a.value_), &Operations::inverse_roots); }

  friend Counted Dot(Term term, const Operand& a, const Operand& b, int64_t columns, int64_t rows) {
    Counted sum;
    const auto for_each = [&](const auto& visit) {
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < columns; ++c) {
          visit(a.first[r * a.row_stride + c * a.stride], b.first[r * b.row_stride + c * b.stride]);
        }
      }
    };
    double value = 0;
    Depth depth;
    for_each([&](const Counted& x, const Counted& y) {
      value += x.value_ * y.value_;
      depth.Raise(x.depth_);
      depth.Raise(y.depth_);
    });
    sum.value_ = value, sum.depth_ = depth;
    if (thread_tally.reads) {
      for_each([&](const Counted& x, const Counted& y) { sum.Include(x.origin_), sum.Include(y.origin_); });
    }
    thread_tally.products[static_cast<int>(term)] += rows * columns;
    if (rows * columns > 0) sum.Deepen(1, 1 + CeilLog2(rows * columns));
    return sum;
  }

  // a * b + c: a reduction of two terms.
  friend Counted MultiplyAdd(Term term, Counted a, const Counted& b, const Counted& c) {
    a.Include(b);
    a.Include(c);
    a.value_ = a.value_ * b.value_ + c.value_;
    a.Deepen(1, 1 + CeilLog2(2));
    ++thread_tally.products[static_cast<int>(term)];
    return a;
  }

  friend Counted Sum(std::span<const Counted> terms) {
    Counted sum = terms[0];
    for (const Counted& term : terms.subspan(1)) {
      sum.value_ += term.value_;
      sum.Include(term);
      ++thread_tally.operations.additions;
    }
    if (terms.size() > 1) sum.Deepen(1, CeilLog2(terms.size()));
    return sum;
  }

  friend Counted Max(std::span<const Counted> terms) {
    Counted largest = terms[0];
    for (const Counted& term : terms.subspan(1)) {
      largest.value_ = std::max(largest.value_, term.value_);
      largest.Include(term);  // the outcome depends on the losers too
      ++thread_tally.operations.comparisons;
    }
    if (terms.size() > 1) largest.Deepen(1, CeilLog2(terms.size()));
    return largest;
  }

  // The value as (part of) what `position` holds from now on.
  friend Counted NewState(Counted value, int64_t position) {
    ++value.depth_.steps;
    if (!thread_tally.reads) return value;
    const Origin before = value.origin_ ? *value.origin_ : Origin{Nowhere(), Nowhere()};
    (*thread_tally.reads)[position] |= before.reads;
    value.origin_ = std::make_shared<Origin>(Origin{Only(position), before.inputs});
    return value;
  }

 private:
  static Positions Nowhere() { return Positions(thread_tally.reads->size()); }
  static Positions Only(int64_t position) { return Nowhere().set(position); }

  void Include(const Counted& operand) {
    depth_.Raise(operand.depth_);
    Include(operand.origin_);
  }
  // Shared by many scalars, and written by its sole owner alone.
  void Include(const std::shared_ptr<Origin>& other) {
    if (!other || other == origin_) return;
    if (!origin_ || other->Holds(*origin_)) {
      origin_ = other;
    } else if (!origin_->Holds(*other)) {
      if (origin_.use_count() != 1) origin_ = std::make_shared<Origin>(*origin_);
      origin_->reads |= other->reads;
      origin_->inputs |= other->inputs;
    }
  }
  void Deepen(int32_t rounds, int32_t span) {
    depth_.rounds += rounds;
    depth_.span += span;
  }
  Counted& Finish(double value, int64_t Operations::*kind) {
    value_ = value;
    Deepen(1, 1);
    ++(thread_tally.operations.*kind);
    return *this;
  }

  double value_;
  Depth depth_;
  std::shared_ptr<Origin> origin_;
};

// What a layer computes and keeps: its outputs and everything on the way that is an array.
using Activations = std::vector<Counted, TalliedAllocator<Counted>>;

}  // namespace heed::lab

#endif  // HEED_BOOK_COMPARISON_COUNTED_H_
