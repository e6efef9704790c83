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

// A term of a gradient. noise: what its rounding is measured by.
struct GradientTerm {
  double value, noise;

  GradientTerm Times(double factor) const { return {value * factor, std::abs(noise * factor)}; }
};

// Sums of terms in one array, and of their noise in another.
class ArraySums {
 public:
  ArraySums(std::vector<double>& d, std::vector<double>& mass) : d_(d.data()), mass_(mass.data()) {}

  void Add(int64_t at, const GradientTerm& term) const {
    d_[at] += term.value;
    mass_[at] += term.noise;
  }

 private:
  double *d_, *mass_;
};

class GradientSums {
 public:
  // mass: the same arrays.
  GradientSums(Gradients& d, Gradients& mass) : d_(d), mass_(mass) {}

  ArraySums q() const { return {d_.q, mass_.q}; }
  ArraySums k() const { return {d_.k, mass_.k}; }
  ArraySums v() const { return {d_.v, mass_.v}; }
  ArraySums Of(std::string_view table) const {
    std::size_t at = 0;
    while (d_.tables.at(at).name != table) ++at;
    return {d_.tables[at].values, mass_.tables[at].values};
  }

 private:
  Gradients &d_, &mass_;
};

}  // namespace heed::reference

#endif  // HEED_REFERENCE_GRADIENTS_H_
