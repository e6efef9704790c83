#include "position/pair_program/call_code.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <set>
#include <tuple>

#include "program/operation.h"
#include "simd/tuning.h"

namespace heed::position {
namespace {

std::vector<int> AllNeeded(const program::Code& code, const std::vector<int>& instructions) {
  std::set<int> all;
  for (int instruction : instructions) {
    const std::vector<int> needed = program::NeededBy(code, instruction);
    all.insert(needed.begin(), needed.end());
  }
  return {all.begin(), all.end()};
}

// A number of nats in powers of two; a bias as low as numbers go stays a number.
template <class T>
T InBits(double nats) {
  return program::Narrowed<T>(std::isfinite(nats) ? std::clamp(nats, std::numeric_limits<double>::lowest() / 2,
                                                               std::numeric_limits<double>::max() / 2) *
                                                        std::numbers::log2e
                                                  : nats);
}

std::tuple<program::Axis, bool, bool> KeyOf(const program::Domain& domain) { return {domain.axis, domain.batch, domain.head}; }

}  // namespace

Stretches::Stretches(const program::Code& code, const std::vector<program::Domain>& domains, const program::Domain& domain,
                     const std::vector<int>& instructions, const program::TableReaders& tables, const PairForm& form)
    : form_(form), domain_(domain), evaluation_(code, domains, AllNeeded(code, instructions), tables) {}

template <class T>
int64_t GivenValues<T>::Padded(program::Axis axis) const {
  constexpr int64_t kPanel = simd::kWidestPanelBytes / sizeof(float);
  return axis == program::Axis::kNone ? 1 : form_.Length(axis) + kPanel;
}

template <class T>
void GivenValues<T>::Lay(core::Arena& arena) {
  arrays_.assign(given_.size(), {});
  for (std::size_t x = 0; x < given_.size(); ++x) {
    const program::Domain& domain = given_[x].domain;
    const int64_t rows = form_.Rows(domain), length = Padded(domain.axis);
    if (given_[x].narrow) arrays_[x].narrow = arena.Take<T>(rows, length);
    if (given_[x].wide) arrays_[x].wide = arena.Take<double>(rows, length);
  }
}

template <class T>
void GivenValues<T>::Store(std::size_t index, const double* values, int64_t row, int64_t first, int64_t count) const {
  const program::Domain& domain = given_[index].domain;
  const int64_t length = form_.Length(domain.axis), start = row * Padded(domain.axis);
  const bool backwards = domain.axis == program::Axis::kOffset, bits = static_cast<int>(index) == in_bits_;
  const auto store = [&]<class E>(E* array) {
    if (!array) return;
    for (int64_t n = 0; n < count; ++n) {
      const double value = values[backwards ? count - 1 - n : n];
      array[start + first + n] = bits ? InBits<E>(value) : program::Narrowed<E>(value);
    }
    if (first + count == length && domain.axis != program::Axis::kNone)
      std::fill(array + start + length, array + start + Padded(domain.axis), E{0});
  };
  store(arrays_[index].narrow);
  store(arrays_[index].wide);
}

template <class T>
void GivenValues<T>::Fill() const {
  std::vector<char> done(given_.size(), 0);
  for (std::size_t x = 0; x < given_.size(); ++x) {
    if (done[x]) continue;
    std::vector<std::size_t> together;
    std::vector<int> instructions;
    for (std::size_t y = x; y < given_.size(); ++y)
      if (KeyOf(given_[y].domain) == KeyOf(given_[x].domain)) {
        done[y] = 1;
        together.push_back(y);
        instructions.push_back(given_[y].instruction);
      }
    Stretches stretches(code_, domains_, given_[x].domain, instructions, tables_, form_);
    stretches.ForEach([](int64_t, int64_t, int64_t) -> const double* { return nullptr; },
                      [&](const program::Evaluation& evaluation, int64_t row, int64_t first, int64_t count) {
                        for (std::size_t y : together) Store(y, evaluation.values(given_[y].instruction), row, first, count);
                      });
  }
}

template class GivenValues<float>;
template class GivenValues<double>;

}  // namespace heed::position
