// Attention in double precision, straight from the formulas of heed/attention.h, in O(Nq * Nk) time and memory. Shares no
// code with the kernels: tests, benches and `heed check` measure them against it.
#ifndef HEED_REFERENCE_REFERENCE_H_
#define HEED_REFERENCE_REFERENCE_H_

#include <vector>

#include "heed/attention.h"

namespace heed::reference {

// Contiguous arrays of the shapes in heed/attention.h. Gradients are empty unless asked for.
struct Result {
  std::vector<double> out, lse;
  std::vector<double> weights;  // [rows of lse, longest Nk] before dropout
  std::vector<double> kept;     // the same, 0 where dropout removes the weight, else 1
  std::vector<double> entropy, max_weight, mean_distance;
  std::vector<double> d_q, d_k, d_v;
  std::vector<double> d_bias, d_relative_bias, d_slopes, d_content_keys, d_content_values, d_content_queries;
  // What the rounding of these gradients is measured by, because their terms cancel: the sums of the absolute terms, with |dP|
  // + |delta| for dP - delta.
  std::vector<double> slope_mass, content_key_mass, content_value_mass, content_query_mass;
};

// d_out without data asks for the forward pass alone.
Result Compute(const Attention& attention, View<const double, 4> q, View<const double, 4> k, View<const double, 4> v,
               View<const double, 4> d_out = {});

// The 16-bit random number that decides over one weight; the weight is kept where it is at least round(p * 65536).
uint32_t DropoutBits(uint64_t seed, uint64_t batch, uint64_t head, uint64_t query, uint64_t key);

}  // namespace heed::reference

#endif  // HEED_REFERENCE_REFERENCE_H_
