// Gradients in double precision, and what their rounding is measured by.
#ifndef HEED_REFERENCE_GRADIENTS_H_
#define HEED_REFERENCE_GRADIENTS_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace heed::reference {

class Formulas;

// Contiguous arrays of the shapes in heed/attention.h. Those of tables have the names that errors have.
struct Gradients {
  struct Table {
    std::string name;
    std::vector<double> values;
  };
  std::vector<double> q, k, v;
  std::vector<Table> tables;

  const std::vector<double>& Of(std::string_view table) const {
    for (const Table& one : tables)
      if (one.name == table) return one.values;
    throw std::logic_error("no gradient of the name " + std::string(table));
  }
};

// Those of a call, all 0. rows, kv_rows: of q, of k and v.
Gradients Zeros(const Formulas& f, int64_t rows, int64_t kv_rows);

// A term of a gradient. noise: what its rounding is measured by.
struct GradientTerm {
  double value, noise;

  GradientTerm Times(double factor) const { return {value * factor, std::abs(noise * factor)}; }
};

// Sums of terms in one array, of their noise in another, and in a third of what rounding took from the first: thousands of
// equal terms are rounded the same way (Knuth, "The Art of Computer Programming", section 4.2.2, theorem B).
class ArraySums {
 public:
  ArraySums(std::vector<double>& d, std::vector<double>& mass, std::vector<double>& lost)
      : d_(d.data()), mass_(mass.data()), lost_(lost.data()) {}

  void Add(int64_t at, const GradientTerm& term) const {
    const double before = d_[at], sum = before + term.value, taken = sum - before;
    lost_[at] += (before - (sum - taken)) + (term.value - taken);
    d_[at] = sum;
    mass_[at] += term.noise;
  }

 private:
  double *d_, *mass_, *lost_;
};

class GradientSums {
 public:
  // mass, lost: the same arrays.
  GradientSums(Gradients& d, Gradients& mass, Gradients& lost) : d_(d), mass_(mass), lost_(lost) {}

  ArraySums q() const { return {d_.q, mass_.q, lost_.q}; }
  ArraySums k() const { return {d_.k, mass_.k, lost_.k}; }
  ArraySums v() const { return {d_.v, mass_.v, lost_.v}; }
  ArraySums Of(std::string_view table) const {
    std::size_t at = 0;
    while (d_.tables.at(at).name != table) ++at;
    return {d_.tables[at].values, mass_.tables[at].values, lost_.tables[at].values};
  }

 private:
  Gradients &d_, &mass_, &lost_;
};

}  // namespace heed::reference

#endif  // HEED_REFERENCE_GRADIENTS_H_
