#include "lab/comparison/numbers.h"

#include <algorithm>
#include <cstdlib>

namespace heed::lab {

std::vector<NamedNumber> Entries(const LayerNumbers& numbers) {
  const Operations &projections = numbers.projections, &mixing = numbers.mixing;
  const auto both = [&](int64_t Operations::*kind) { return projections.*kind + mixing.*kind; };
  return {
      {"multiply_adds", numbers.multiply_adds()},
      {"projection_multiply_adds", projections.multiply_adds},
      {"mixing_multiply_adds", mixing.multiply_adds},
      {"multiplications", both(&Operations::multiplications)},
      {"additions", both(&Operations::additions)},
      {"divisions", both(&Operations::divisions)},
      {"comparisons", both(&Operations::comparisons)},
      {"exponentials", both(&Operations::exponentials)},
      {"hyperbolic_tangents", both(&Operations::hyperbolic_tangents)},
      {"sequential_steps", numbers.sequential_steps},
      {"rounds", numbers.rounds},
      {"span", numbers.span},
      {"path_length", numbers.path_length},
      {"longest_path", numbers.longest_path},
      {"layers_to_connect", numbers.layers_to_connect},
  };
}

int64_t LargestDifference(const LayerNumbers& a, const LayerNumbers& b) {
  const std::vector<NamedNumber> of_a = Entries(a), of_b = Entries(b);
  int64_t largest = 0;
  for (std::size_t i = 0; i < of_a.size(); ++i) largest = std::max(largest, std::abs(of_a[i].value - of_b[i].value));
  return largest;
}

}  // namespace heed::lab
