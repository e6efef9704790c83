// The numbers of one layer at one length, counted on a run or computed from formulas.
#ifndef HEED_BOOK_COMPARISON_NUMBERS_H_
#define HEED_BOOK_COMPARISON_NUMBERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "book/comparison/tally.h"

namespace heed::lab {

struct LayerNumbers {
  Products products{};            // multiply-adds by term
  Operations operations;          // everything else
  int64_t sequential_steps = 0;   // states that must be computed one after the other
  int64_t rounds = 0;             // longest chain of operations, a reduction being one
  int64_t span = 0;               // longest chain of operations, a reduction of m terms being ceil(log2(m))
  int64_t memory = 0;             // the most activations held at once, beside the layer's input
  int64_t path_length = 0;        // hops from the first to the last position, stacking layers as needed; kNever
  int64_t longest_path = 0;       // the most hops between any two positions that the layer may connect; kNever
  int64_t layers_to_connect = 0;  // layers until first and last position lie in one receptive field; kNever

  int64_t Of(Term term) const { return products[static_cast<int>(term)]; }
  int64_t& Of(Term term) { return products[static_cast<int>(term)]; }
  int64_t multiply_adds() const;  // of all terms
  int64_t scores_and_sums() const { return Of(Term::kScores) + Of(Term::kSums); }
};

inline constexpr Term kAllTerms[] = {Term::kProjections, Term::kConvolution, Term::kRecurrence,
                                     Term::kScores,      Term::kSums,        Term::kElementwise};
static_assert(sizeof(kAllTerms) / sizeof(Term) == kTerms);

std::string NameOf(Term term);  // "projections", "convolution products", ...

struct NamedNumber {
  std::string name;  // letters and '_', as in the header of a CSV file
  int64_t value;
};

// Every number with its name, always in the same order.
std::vector<NamedNumber> Entries(const LayerNumbers& numbers);

// The largest absolute difference of two entries.
int64_t LargestDifference(const LayerNumbers& a, const LayerNumbers& b);

}  // namespace heed::lab

#endif  // HEED_BOOK_COMPARISON_NUMBERS_H_
