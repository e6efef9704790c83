// A program made ready for one call: its steps, what is computed once before them, and a worker's memory for them.
#ifndef HEED_POSITION_PAIR_PROGRAM_CALL_CODE_H_
#define HEED_POSITION_PAIR_PROGRAM_CALL_CODE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "attention/plan.h"
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

// The pairs of a strip: its keys, and lanes of a panel.
struct StripExtent {
  int64_t keys, panel, lane_begin, lane_end;
};

// Numbers that are the same for all lanes are repeated for a vector of any width.
constexpr int64_t kRepeats = attention::kLaneQuantum;

template <class T>
class CallCode {
 public:
  // in_bits: whether the one result, where it is given, is wanted in powers of two.
  CallCode(program::Code code, const program::PairFacts& facts, const PairForm& form, const program::TableReaders& tables,
           bool in_bits = false)
      : code_(std::move(code)),
        domains_(program::DomainsOf(code_, form.positions())),
        pairs_(program::CompilePairs(code_, domains_, facts)),
        form_(form),
        tables_(tables),
        values_(code_, domains_, pairs_.given, tables_, form_,
                in_bits && result_is_given() ? pairs_.results[0].operand.index : -1) {}
  CallCode(const CallCode&) = delete;
  CallCode& operator=(const CallCode&) = delete;

  void Lay(core::Arena& arena) { values_.Lay(arena); }
  void Prepare() const { values_.Fill(); }

  const program::Code& code() const { return code_; }
  const program::PairCode& pairs() const { return pairs_; }
  const PairForm& form() const { return form_; }
  const program::TableReaders& tables() const { return tables_; }
  bool result_is_given() const { return pairs_.results[0].operand.place == program::Operand::Place::kGiven; }

  template <class E>
  const E* values(int given, int64_t b, int64_t h) const {
    if constexpr (std::is_same_v<E, T>)
      return values_.narrow(given, b, h);
    else
      return values_.wide(given, b, h);
  }

 private:
  program::Code code_;
  std::vector<program::Domain> domains_;
  program::PairCode pairs_;
  const PairForm& form_;
  const program::TableReaders& tables_;
  GivenValues<T> values_;
};

// What a worker computes pairs in.
struct StripMemory {
  int64_t rows = 0;  // keys of a strip

  StripMemory() = default;
  // grouped: whether several heads may stand side by side in a panel.
  template <class T>
  StripMemory(core::Arena& arena, const CallCode<T>& code, int64_t panel, bool grouped) : apart_(sizeof(T) < sizeof(double)) {
    const program::PairCode& pairs = code.pairs();
    const int64_t bytes = pairs.any_wide ? sizeof(double) : sizeof(T);
    // To begin a step costs about as much as 16 vectors: strips are as long as their registers leave the second-level cache to
    // the operands.
    constexpr int64_t kBytes = 64 * 1024;
    rows = 64;
    while (rows > 2 && pairs.registers * rows * panel * bytes > kBytes) rows /= 2;
    register_bytes_ = rows * panel * bytes;
    given_elements_ = rows * (grouped ? panel : kRepeats);
    registers_ = arena.Take<std::byte>(pairs.registers, register_bytes_);
    const auto constants = static_cast<int64_t>(pairs.constants.size()), given = static_cast<int64_t>(pairs.given.size());
    narrow_constants_ = arena.Take<T>(constants, kRepeats);
    wide_constants_ = arena.Take<double>(apart_ ? constants : 0, kRepeats);
    narrow_given_ = arena.Take<T>(given, given_elements_);
    wide_given_ = arena.Take<double>(apart_ ? given : 0, given_elements_);
  }

  template <class E>
  E* at(int index) const {
    return reinterpret_cast<E*>(registers_ + index * register_bytes_);
  }
  template <class E>
  E* constant(std::size_t index) const {
    return static_cast<E*>(Of<E>(narrow_constants_, wide_constants_)) + static_cast<int64_t>(index) * kRepeats;
  }
  template <class E>
  E* given(std::size_t index) const {
    return static_cast<E*>(Of<E>(narrow_given_, wide_given_)) + static_cast<int64_t>(index) * given_elements_;
  }

 private:
  template <class E>
  void* Of(void* narrow, void* wide) const {
    return std::is_same_v<E, float> || !apart_ ? narrow : wide;
  }

  bool apart_ = false;  // whether wide elements are of another type than narrow ones
  int64_t register_bytes_ = 0, given_elements_ = 0;
  std::byte* registers_ = nullptr;
  void *narrow_constants_ = nullptr, *wide_constants_ = nullptr, *narrow_given_ = nullptr, *wide_given_ = nullptr;
};

}  // namespace heed::position

#endif  // HEED_POSITION_PAIR_PROGRAM_CALL_CODE_H_
