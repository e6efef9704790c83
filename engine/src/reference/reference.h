// Attention in double precision, straight from the formulas of heed/attention.h, in O(Nq * Nk) time and memory. Shares no
// code with the kernels: tests, benches and `heed check` measure them against it.
#ifndef HEED_REFERENCE_REFERENCE_H_
#define HEED_REFERENCE_REFERENCE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "heed/attention.h"
#include "reference/gradients.h"

namespace heed::reference {

struct Result {
  std::vector<double> out, lse;
  double largest_score = 0;      // of all pairs, with absolute terms
  std::vector<double> out_mass;  // what the rounding of out is measured by: sum_j p[j] |what key j gives|, before dropout
  std::vector<double> weights;   // [rows of lse, longest Nk] before dropout
  std::vector<double> entropy, max_weight, mean_distance;
  std::vector<int64_t> largest_key;  // -1 without one
  std::vector<double> valueless;     // the weight of each row's key without a value, 0 without one
  // Empty unless asked for. mass is what the rounding of d is measured by, because its terms cancel: the sums of the absolute
  // terms, with |dP| + |delta| + |dLse| for dP - delta + dLse.
  Gradients d, mass;
  // Forward mode, see heed::Tangent; empty unless asked for. Then the tangents of gradients stand in the places of these, see
  // heed::BackwardTangent.
  std::vector<double> t_out, t_lse, t_out_mass, t_lse_mass;
};

// Gradients of the numbers of rows, in the order of lse; empty for none. largest_key: which keys have the largest weights,
// where rounding may decide; empty: the first of those that do.
struct RowGradients {
  std::vector<double> lse, entropy, max_weight, mean_distance;
  std::vector<int64_t> largest_key;
};

// Tangents of what a call gets; those of tables are contiguous.
struct InputTangents : Tangents<double> {
  View<const double, 4> d_out;
  std::vector<double> d_lse;
};

// d_out without data asks for the forward pass alone.
Result Compute(const Attention& attention, View<const double, 4> q, View<const double, 4> k, View<const double, 4> v,
               View<const double, 4> d_out = {}, const RowGradients& d_rows = {},
               const std::optional<InputTangents>& tangents = {});

// The 16-bit random number that decides over one weight; the weight is kept where it is at least round(p * 65536).
uint32_t DropoutBits(uint64_t seed, uint64_t batch, uint64_t head, uint64_t query, uint64_t key);

}  // namespace heed::reference

#endif  // HEED_REFERENCE_REFERENCE_H_
