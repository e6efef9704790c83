// NaN and infinity wherever no row of a call looks: what a sound kernel gives is the same as without them.
#ifndef HEED_REFERENCE_SPOILED_H_
#define HEED_REFERENCE_SPOILED_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <variant>
#include <vector>

#include "heed/attention.h"
#include "reference/dense.h"
#include "reference/formulas.h"
#include "reference/scheme.h"
#include "reference/trial_arrays.h"

namespace heed::reference {

// Who looks at what in a call.
class Sight {
 public:
  Sight(const Formulas& f, int64_t query_rows, int64_t key_rows)
      : sees_(static_cast<std::size_t>(query_rows)),
        looks_(sees_),
        key_seen_(static_cast<std::size_t>(key_rows)),
        value_seen_(key_seen_) {
    for (int64_t b = 0; b < f.batch(); ++b)
      for (int64_t h = 0; h < f.heads(); ++h)
        for (int64_t i = 0; i < f.QueryCount(b); ++i)
          if (!f.Padded(b, i)) Look(f, b, h, i);
  }

  // Whether a query looks at the number of any key, at any value at all; in rows of the arrays.
  bool Sees(int64_t query_row) const { return sees_[static_cast<std::size_t>(query_row)]; }
  bool Looks(int64_t query_row) const { return looks_[static_cast<std::size_t>(query_row)]; }
  bool KeySeen(int64_t key_row) const { return key_seen_[static_cast<std::size_t>(key_row)]; }
  bool ValueSeen(int64_t key_row) const { return value_seen_[static_cast<std::size_t>(key_row)]; }

 private:
  void Look(const Formulas& f, int64_t b, int64_t h, int64_t i) {
    const auto query = static_cast<std::size_t>(f.QueryRow(b, h, i));
    const bool uniform = f.Uniform(b, h, i);
    for (int64_t j = 0; j < f.KeyCount(b); ++j) {
      const auto key = static_cast<std::size_t>(f.KeyRow(b, h, j));
      const bool visible = !uniform && f.Visible({b, h, i, j});
      sees_[query] = sees_[query] || visible;
      looks_[query] = looks_[query] || visible || uniform;
      key_seen_[key] = key_seen_[key] || visible;
      value_seen_[key] = value_seen_[key] || visible || uniform;
    }
  }

  std::vector<bool> sees_, looks_, key_seen_, value_seen_;
};

// A number that spreads wherever it is added or multiplied, by 0 too.
template <class T>
T Spreading(Random& random) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double choices[] = {std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity};
  return Rounded<T>(choices[random() % 3]);
}

// Spoils the rows of an array, counted in the order of its first three dimensions, for which spoil(row) holds. The array has
// its elements apart; what it is compared with stays as it is.
template <class T, class Spoil>
void SpoilRows(Input<T>& input, Random& random, const Spoil& spoil) {
  const auto& extent = input.view.extent;
  const auto& stride = input.view.stride;
  T* const data = input.memory.data() + (input.view.data - input.memory.data());
  for (int64_t row = 0; row < extent[0] * extent[1] * extent[2]; ++row) {
    if (!spoil(row)) continue;
    const int64_t i = row % extent[2], h = row / extent[2] % extent[1], b = row / extent[2] / extent[1];
    for (int64_t c = 0; c < extent[3]; ++c)
      data[b * stride[0] + h * stride[1] + i * stride[2] + c * stride[3]] = Spreading<T>(random);
  }
}

// Spoils the entries of a bias that no pair reads. An entry of -inf is read: it hides.
inline void SpoilBias(const Formulas& f) {
  const auto spoil = [&]<class V>(const View<const V, 4>& bias) {
    std::set<const V*> read;
    for (int64_t b = 0; b < f.batch(); ++b)
      for (int64_t h = 0; h < f.heads(); ++h)
        for (int64_t i = 0; i < f.QueryCount(b); ++i)
          for (int64_t j = 0; j < f.KeyCount(b); ++j) {
            const Pair pair{b, h, i, j};
            const auto [at_b, at_h, at_i, at_j] = DenseIndex(bias.extent, pair);
            const V& entry = bias(at_b, at_h, at_i, at_j);
            const bool hides = Exact(entry) == -std::numeric_limits<double>::infinity();
            if (hides || (!f.Padded(b, i) && f.Visible(pair))) read.insert(&entry);
          }
    for (int64_t b = 0; b < bias.extent[0]; ++b)
      for (int64_t h = 0; h < bias.extent[1]; ++h)
        for (int64_t i = 0; i < bias.extent[2]; ++i)
          for (int64_t j = 0; j < bias.extent[3]; ++j)
            if (const V& entry = bias(b, h, i, j); !read.contains(&entry))
              const_cast<V&>(entry) = Rounded<V>(std::numeric_limits<double>::quiet_NaN());
  };
  if (f.attention().bias) std::visit(spoil, f.attention().bias->values);
}

}  // namespace heed::reference

#endif  // HEED_REFERENCE_SPOILED_H_
