// A scalar that remembers how it came about: it carries a double, and a layer that runs on it leaves behind how
// many operations it did, how long its longest chain of dependent operations was and, on request, which positions
// each state was computed from.
#ifndef HEED_BOOK_COMPARISON_COUNTED_H_
#define HEED_BOOK_COMPARISON_COUNTED_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>

#include "book/comparison/position_set.h"
#include "book/comparison/tally.h"

namespace heed::lab {

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

// Carries no positions: for counts at full width.
struct NoOrigin {
  void Merge(const NoOrigin&) {}
  void StartAt(int64_t) {}
  void BecomeState(int64_t) {}
};

// Carries positions, exactly and structurally: a term counts even where its value happens to be zero.
struct PositionOrigin {
  PositionSet reads;   // positions whose states this value was computed from, since the last state on its way
  PositionSet inputs;  // positions of the layer's input that this value depends on at all

  void Merge(const PositionOrigin& other) {
    reads |= other.reads;
    inputs |= other.inputs;
  }
  void StartAt(int64_t position) { reads = inputs = PositionSet(position); }
  void BecomeState(int64_t position) {
    if (thread_tally.reads) (*thread_tally.reads)[position] |= reads;
    reads = PositionSet(position);
  }
};

// A factor of an inner product: number (r, c) lies at first[r * row_stride + c * stride].
template <class Scalar>
struct Operand {
  explicit Operand(const Scalar* first_, int64_t stride_ = 1, int64_t row_stride_ = 0)
      : first(first_), stride(stride_), row_stride(row_stride_) {}

  const Scalar* first;
  int64_t stride, row_stride;
};

template <class Origin>
class Instrumented {
 public:
  Instrumented(double value = 0) : value_(value) {}  // a constant or a weight: at depth 0, from no position

  static Instrumented Input(double value, int64_t position) {
    Instrumented input(value);
    input.origin_.StartAt(position);
    return input;
  }

  double value() const { return value_; }
  const Depth& depth() const { return depth_; }
  const Origin& origin() const { return origin_; }

  friend Instrumented operator+(Instrumented a, const Instrumented& b) {
    a.Include(b);
    return a.Finish(a.value_ + b.value_, &Operations::additions);
  }
  friend Instrumented operator-(Instrumented a, const Instrumented& b) {
    a.Include(b);
    return a.Finish(a.value_ - b.value_, &Operations::additions);
  }
  friend Instrumented operator*(Instrumented a, const Instrumented& b) {
    a.Include(b);
    return a.Finish(a.value_ * b.value_, &Operations::multiplications);
  }
  friend Instrumented operator/(Instrumented a, const Instrumented& b) {
    a.Include(b);
    return a.Finish(a.value_ / b.value_, &Operations::divisions);
  }
  friend Instrumented Exp(Instrumented a) { return a.Finish(std::exp(a.value_), &Operations::exponentials); }
  friend Instrumented Sigmoid(Instrumented a) { return a.Finish(1 / (1 + std::exp(-a.value_)), &Operations::sigmoids); }
  friend Instrumented Tanh(Instrumented a) { return a.Finish(std::tanh(a.value_), &Operations::hyperbolic_tangents); }
  friend Instrumented Softplus(Instrumented a) {  // as PyTorch's
    return a.Finish(a.value_ > 20 ? a.value_ : std::log1p(std::exp(a.value_)), &Operations::softpluses);
  }
  friend Instrumented InverseRoot(Instrumented a) { return a.Finish(1 / std::sqrt(a.value_), &Operations::inverse_roots); }

  // The sum over all rows and columns of a * b: multiply-adds, and one reduction.
  friend Instrumented Dot(Term term, const Operand<Instrumented>& a, const Operand<Instrumented>& b, int64_t columns,
                          int64_t rows = 1) {
    Instrumented sum;
    int64_t multiply_adds = 0;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        const Instrumented &x = a.first[r * a.row_stride + c * a.stride], &y = b.first[r * b.row_stride + c * b.stride];
        sum.value_ += x.value_ * y.value_;
        sum.Include(x);
        sum.Include(y);
        ++multiply_adds;
      }
    }
    thread_tally.products[static_cast<int>(term)] += multiply_adds;
    if (multiply_adds > 0) sum.Deepen(1, 1 + CeilLog2(multiply_adds));
    return sum;
  }

  // a * b + c: a reduction of two terms.
  friend Instrumented MultiplyAdd(Term term, Instrumented a, const Instrumented& b, const Instrumented& c) {
    a.Include(b);
    a.Include(c);
    a.value_ = a.value_ * b.value_ + c.value_;
    a.Deepen(1, 1 + CeilLog2(2));
    ++thread_tally.products[static_cast<int>(term)];
    return a;
  }

  friend Instrumented Sum(std::span<const Instrumented> terms) {
    Instrumented sum = terms[0];
    for (const Instrumented& term : terms.subspan(1)) {
      sum.value_ += term.value_;
      sum.Include(term);
      ++thread_tally.operations.additions;
    }
    if (terms.size() > 1) sum.Deepen(1, CeilLog2(terms.size()));
    return sum;
  }

  friend Instrumented Max(std::span<const Instrumented> terms) {
    Instrumented largest = terms[0];
    for (const Instrumented& term : terms.subspan(1)) {
      largest.value_ = std::max(largest.value_, term.value_);
      largest.Include(term);  // the outcome depends on the losers too
      ++thread_tally.operations.comparisons;
    }
    if (terms.size() > 1) largest.Deepen(1, CeilLog2(terms.size()));
    return largest;
  }

  // The value as (part of) what `position` holds from now on.
  friend Instrumented NewState(Instrumented value, int64_t position) {
    ++value.depth_.steps;
    value.origin_.BecomeState(position);
    return value;
  }

 private:
  void Include(const Instrumented& operand) {
    depth_.Raise(operand.depth_);
    origin_.Merge(operand.origin_);
  }
  void Deepen(int32_t rounds, int32_t span) {
    depth_.rounds += rounds;
    depth_.span += span;
  }
  Instrumented& Finish(double value, int64_t Operations::*kind) {
    value_ = value;
    Deepen(1, 1);
    ++(thread_tally.operations.*kind);
    return *this;
  }

  double value_;
  Depth depth_;
  [[no_unique_address]] Origin origin_;
};

using Counted = Instrumented<NoOrigin>;       // 24 bytes
using Traced = Instrumented<PositionOrigin>;  // as Counted, with positions

}  // namespace heed::lab

#endif  // HEED_BOOK_COMPARISON_COUNTED_H_
