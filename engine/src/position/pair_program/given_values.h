// What a program computes once for all tokens or offsets, in arrays that the kernels read.
#ifndef HEED_POSITION_PAIR_PROGRAM_GIVEN_VALUES_H_
#define HEED_POSITION_PAIR_PROGRAM_GIVEN_VALUES_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/arena.h"
#include "position/pair_program/form.h"
#include "program/evaluation.h"
#include "program/pair_code.h"

namespace heed::position {

// Computes the values of a program that do not depend on the pair, stretch by stretch.
class Stretches {
 public:
  // instructions: those whose values are wanted, along `domain`. All they need is computed with them.
  Stretches(const program::Code& code, const std::vector<program::Domain>& domains, const program::Domain& domain,
            const std::vector<int>& instructions, const program::TableReaders& tables, const PairForm& form);

  // Calls visit(evaluation, stretch, row, first, count) for all of them: row as PairForm::Row, places first .. first + count
  // - 1. Along offsets the values of an evaluation come in the reverse order. gradients(row): [length] what kGradient stands
  // for, or null.
  template <class Gradients, class Visit>
  void ForEach(const Gradients& gradients, const Visit& visit) {
    // Without rows nothing reads them, and there may be no positions to make them of.
    const bool none = form_.shape().batch == 0 || form_.shape().q_heads == 0;
    const int64_t length = none ? 0 : form_.Length(domain_.axis);
    // Heads one after the other: what they share is computed for the first of them.
    for (int64_t first = 0; first < length; first += program::Evaluation::kMost)
      for (int64_t b = 0; b < (domain_.batch ? form_.shape().batch : 1); ++b)
        for (int64_t h = 0; h < (domain_.head ? form_.shape().q_heads : 1); ++h) {
          const int64_t count = std::min(program::Evaluation::kMost, length - first), row = form_.Row(domain_, b, h);
          program::Stretch stretch = form_.StretchOf(domain_.axis, b, h, first, count);
          stretch.gradients = gradients(row, first, count);
          evaluation_.Run(stretch);
          visit(evaluation_, row, first, count);
        }
  }
  const program::Domain& domain() const { return domain_; }

 private:
  const PairForm& form_;
  program::Domain domain_;
  program::Evaluation evaluation_;
};

template <class T>
class GivenValues {
 public:
  // in_bits: the index of the given value that is kept in powers of two, ready to be added to scores, or -1.
  GivenValues(const program::Code& code, const std::vector<program::Domain>& domains, const std::vector<program::Given>& given,
              const program::TableReaders& tables, const PairForm& form, int in_bits = -1)
      : code_(code), domains_(domains), given_(given), tables_(tables), form_(form), in_bits_(in_bits) {}

  void Lay(core::Arena& arena);
  void Fill() const;

  // The values of a batch row and a head, as elements of one type; behind them lie as many zeros as a panel is wide.
  const T* narrow(int index, int64_t b, int64_t h) const { return At(arrays_[Place(index)].narrow, index, b, h); }
  const double* wide(int index, int64_t b, int64_t h) const { return At(arrays_[Place(index)].wide, index, b, h); }

 private:
  struct Arrays {
    T* narrow = nullptr;
    double* wide = nullptr;
  };
  static std::size_t Place(int index) { return static_cast<std::size_t>(index); }
  int64_t Padded(program::Axis axis) const;
  template <class E>
  E* At(E* array, int index, int64_t b, int64_t h) const {
    const program::Domain& domain = given_[Place(index)].domain;
    return array ? array + form_.Row(domain, b, h) * Padded(domain.axis) : nullptr;
  }
  void Store(std::size_t index, const double* values, int64_t row, int64_t first, int64_t count) const;

  const program::Code& code_;
  const std::vector<program::Domain>& domains_;
  const std::vector<program::Given>& given_;
  const program::TableReaders& tables_;
  const PairForm& form_;
  int in_bits_;
  std::vector<Arrays> arrays_;
};

}  // namespace heed::position

#endif  // HEED_POSITION_PAIR_PROGRAM_GIVEN_VALUES_H_
