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

// A number and its tangent, each with what its rounding is measured by: the sum of the absolute values of its terms.
struct Measured {
  double value = 0, tangent = 0, magnitude = 0, tangent_magnitude = 0;

  Measured() = default;
  Measured(double number, double its_tangent = 0) : Measured(number, its_tangent, std::abs(number), std::abs(its_tangent)) {}
  Measured(double number, double its_tangent, double mass, double tangent_mass)
      : value(number), tangent(its_tangent), magnitude(mass), tangent_magnitude(tangent_mass) {}

  Measured& operator+=(const Measured& term) {
    value += term.value, tangent += term.tangent;
    magnitude += term.magnitude, tangent_magnitude += term.tangent_magnitude;
    return *this;
  }
  friend Measured operator*(const Measured& a, const Measured& b) {
    return {a.value * b.value, a.tangent * b.value + a.value * b.tangent, a.magnitude * b.magnitude,
            a.tangent_magnitude * b.magnitude + a.magnitude * b.tangent_magnitude};
  }
};

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

// The arrays of gradients by number: q, k, v, then the tables.
enum Array { kOnTape = -1, kQueries, kKeys, kValues, kTables };

// Sums of terms in one array, of what their rounding is measured by in another, and in a third of what rounding took from the
// first: thousands of equal terms are rounded the same way (Knuth, "The Art of Computer Programming", section 4.2.2,
// theorem B).
class GradientSums {
 public:
  // mass: the same arrays. tangents: adds up the tangents of gradients in their place.
  GradientSums(Gradients& d, Gradients& mass, bool tangents) : tangents_(tangents) {
    const auto add = [&](std::vector<double>& values, std::vector<double>& masses) {
      arrays_.push_back({values, masses, std::vector<double>(values.size())});
    };
    add(d.q, mass.q), add(d.k, mass.k), add(d.v, mass.v);
    for (std::size_t t = 0; t < d.tables.size(); ++t) add(d.tables[t].values, mass.tables[t].values);
  }

  void Add(int array, int64_t at, const Measured& term) {
    Sums& sums = arrays_[static_cast<std::size_t>(array)];
    const auto x = static_cast<std::size_t>(at);
    const double added = tangents_ ? term.tangent : term.value;
    const double before = sums.d[x], sum = before + added, taken = sum - before;
    sums.lost[x] += (before - (sum - taken)) + (added - taken);
    sums.d[x] = sum;
    sums.mass[x] += tangents_ ? term.tangent_magnitude : term.magnitude;
  }

  // Adds what rounding took.
  void GiveBack() {
    for (Sums& sums : arrays_)
      for (std::size_t x = 0; x < sums.d.size(); ++x) sums.d[x] += sums.lost[x];
  }

 private:
  struct Sums {
    std::vector<double>&d, &mass;
    std::vector<double> lost;
  };
  std::vector<Sums> arrays_;
  bool tangents_;
};

}  // namespace heed::reference

#endif  // HEED_REFERENCE_GRADIENTS_H_
