// Numbers that know their derivatives: a tangent that comes with them and, on a tape, the way back to what they are made of.
#ifndef HEED_REFERENCE_NUMBER_H_
#define HEED_REFERENCE_NUMBER_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "reference/gradients.h"

namespace heed::reference {

// What numbers depend on, in the order in which they were made.
class Tape {
 public:
  int64_t NewNumber() {
    gradients_.emplace_back();
    return static_cast<int64_t>(gradients_.size()) - 1;
  }
  // Number `from` depends on another one, or on an element of an array, with a slope that is wrong by `errors` roundings beside
  // its own.
  void Record(int64_t from, int array, int64_t at, double slope, double tangent, double errors) {
    edges_.push_back({from, at, array, slope, tangent, errors});
  }

  // Gives a number, or an element, a gradient or more of it.
  void Give(int array, int64_t at, const Measured& gradient, GradientSums& sums) {
    if (array == kOnTape) {
      gradients_[static_cast<std::size_t>(at)] += gradient;
    } else {
      sums.Add(array, at, gradient);
    }
  }
  // Passes all gradients on to arrays, and forgets the numbers.
  void WalkBack(GradientSums& sums) {
    for (; !edges_.empty(); edges_.pop_back()) {
      const Edge& edge = edges_.back();
      const Measured& from = gradients_[static_cast<std::size_t>(edge.from)];
      if (from.magnitude == 0 && from.tangent_magnitude == 0) continue;
      Measured term = from * Measured(edge.slope, edge.tangent);
      term.magnitude += std::abs(from.value) * edge.errors;
      term.tangent_magnitude += std::abs(from.tangent) * edge.errors;
      Give(edge.array, edge.at, term, sums);
    }
    Clear();
  }
  void Clear() {
    edges_.clear();
    gradients_.clear();
  }

 private:
  struct Edge {
    int64_t from, at;
    int array;
    double slope, tangent, errors;
  };

  std::vector<Edge> edges_;
  std::vector<Measured> gradients_;  // of numbers
};

// A constant, an element of an array that has gradients, or what is made of others. A copy of what is made of others is the
// same number: only one of them may go on growing.
struct Number : Measured {
  Number(double number = 0, double its_tangent = 0) : Measured(number, its_tangent) {}
  explicit Number(const Measured& number) : Measured(number) {}

  void Add(const Number& term, double factor = 1) {
    const double added = term.value * factor;
    value += added, magnitude += std::abs(added);
    Depend(term, factor);
  }
  void AddProduct(const Number& a, const Number& b, double factor = 1) {
    const double added = a.value * b.value * factor;
    value += added, magnitude += std::abs(added);
    Depend(a, b.value * factor, b.tangent * factor);
    Depend(b, a.value * factor, a.tangent * factor);
  }
  // Says how it depends on another number, see Tape::Record. Its tangent follows; its value is for the caller to change.
  void Depend(const Number& on, double slope, double slope_tangent = 0, double errors = 0) {
    if (!on.tape) return;
    if (!tape || array != kOnTape) Join(*on.tape);
    tape->Record(at, on.array, on.at, slope, slope_tangent, errors);
    tangent += slope * on.tangent;
    tangent_magnitude += std::abs(slope) * on.tangent_magnitude + std::abs(on.tangent) * errors;
  }
  void Give(const Measured& gradient, GradientSums& sums) const {
    if (tape) tape->Give(array, at, gradient, sums);
  }

  Tape* tape = nullptr;  // none: a constant
  int array = kOnTape;
  int64_t at = 0;

 private:
  // Becomes a number on the tape.
  void Join(Tape& on) {
    const int64_t made = on.NewNumber();
    if (tape) on.Record(made, array, at, 1, 0, 0);
    tape = &on, array = kOnTape, at = made;
  }
};

}  // namespace heed::reference

#endif  // HEED_REFERENCE_NUMBER_H_
