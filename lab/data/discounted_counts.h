// How often tokens occurred in contexts, and what that predicts.
#ifndef HEED_LAB_DATA_DISCOUNTED_COUNTS_H_
#define HEED_LAB_DATA_DISCOUNTED_COUNTS_H_

#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>

#include "lab/data/passages.h"

namespace heed::lab {

inline constexpr double kDiscounts[] = {0.3, 0.5, 0.7, 0.9};  // among which the validation part chooses

// The key of a context: tokens, and what they are to the one that is predicted, such as how many stand before it. Among
// millions of contexts a collision of 64 bits is not to be expected.
uint64_t ContextKey(uint64_t kind, std::span<const int32_t> tokens);

// Calls visit(begin, end) for the stretch of each passage that is counted: all of a text of up to a million tokens, of a longer
// one the same share of each passage, from its first token on.
void ForEachCounted(const Passages& text, const std::function<void(int64_t begin, int64_t end)>& visit);

class DiscountedCounts {
 public:
  void Count(uint64_t context, int32_t token);
  // Different pairs of a context and a token.
  int64_t different() const { return std::ssize(runs_); }
  // Interpolated absolute discounting (Ney, Essen and Kneser 1994, "On structuring probabilistic dependences in stochastic
  // language modelling", section 4): a discount, between 0 and 1, is taken off every count and spread by `below`, a prediction
  // from less. That alone where the context was never seen.
  double Probability(uint64_t context, int32_t token, double discount, double below) const;

 private:
  struct Context {
    uint32_t total = 0, different = 0;  // tokens that were seen in it
  };
  std::unordered_map<uint64_t, uint32_t> runs_;     // counts by the hash of context and token
  std::unordered_map<uint64_t, Context> contexts_;  // by their keys
};

}  // namespace heed::lab

#endif  // HEED_LAB_DATA_DISCOUNTED_COUNTS_H_
