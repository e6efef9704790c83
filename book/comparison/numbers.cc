#include "book/comparison/numbers.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

namespace heed::lab {

int64_t LayerNumbers::multiply_adds() const { return std::accumulate(products.begin(), products.end(), int64_t{0}); }

std::string NameOf(Term term) {
  switch (term) {
    case Term::kProjections:
      return "projections";
    case Term::kConvolution:
      return "convolution products";
    case Term::kRecurrence:
      return "recurrence products";
    case Term::kScores:
      return "score products";
    case Term::kSums:
      return "weighted sums";
    case Term::kElementwise:
      break;
  }
  return "elementwise products";
}

std::vector<NamedNumber> Entries(const LayerNumbers& numbers) {
  std::vector<NamedNumber> entries = {{"multiply_adds", numbers.multiply_adds()}};
  for (const Term term : kAllTerms) {
    std::string name = NameOf(term);
    std::ranges::replace(name, ' ', '_');
    entries.push_back({name, numbers.Of(term)});
  }
  const Operations& others = numbers.operations;
  entries.insert(entries.end(), {{"multiplications", others.multiplications},
                                 {"additions", others.additions},
                                 {"divisions", others.divisions},
                                 {"comparisons", others.comparisons},
                                 {"exponentials", others.exponentials},
                                 {"sigmoids", others.sigmoids},
                                 {"hyperbolic_tangents", others.hyperbolic_tangents},
                                 {"softpluses", others.softpluses},
                                 {"inverse_roots", others.inverse_roots},
                                 {"sequential_steps", numbers.sequential_steps},
                                 {"rounds", numbers.rounds},
                                 {"span", numbers.span},
                                 {"memory", numbers.memory},
                                 {"path_length", numbers.path_length},
                                 {"longest_path", numbers.longest_path},
                                 {"layers_to_connect", numbers.layers_to_connect}});
  return entries;
}

int64_t LargestDifference(const LayerNumbers& a, const LayerNumbers& b) {
  const std::vector<NamedNumber> of_a = Entries(a), of_b = Entries(b);
  int64_t largest = 0;
  for (std::size_t i = 0; i < of_a.size(); ++i) largest = std::max(largest, std::abs(of_a[i].value - of_b[i].value));
  return largest;
}

}  // namespace heed::lab
