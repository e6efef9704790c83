// How often tokens occurred in contexts, and what that predicts.
#ifndef HEED_NGRAMS_H_
#define HEED_NGRAMS_H_

#include <cstdint>
#include <functional>
#include <iterator>
#include <span>
#include <unordered_map>
#include <vector>

namespace heed {

// Of a text, that are counted at most.
inline constexpr int64_t kMostCounted = int64_t{1} << 20;
// Tokens of a run, at most.
inline constexpr int64_t kMostOrder = 12;

// The key of a context: tokens, and what they are to the one that is predicted, such as how many stand before it. Among
// millions of contexts a collision of 64 bits is not to be expected.
uint64_t ContextKey(uint64_t kind, std::span<const int32_t> tokens);

// Calls visit(begin, end) for the stretch of each passage that is counted: all of a text of up to kMostCounted tokens, of a
// longer one the same share of each passage, from its first token on. ends: of each passage among the tokens, rising.
void ForEachCounted(std::span<const int64_t> ends, const std::function<void(int64_t begin, int64_t end)>& visit);

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

// How often each run of up to `order()` tokens occurs within a passage. A token is predicted from the order - 1 tokens before
// it, see DiscountedCounts, spread by the prediction from one token less, down to a uniform one.
class NGrams {
 public:
  NGrams() = default;
  // Counts what ForEachCounted visits, and orders up to `most_order` as long as they have at most two million different runs in
  // all. Tokens are 0 .. symbols - 1.
  NGrams(std::span<const int32_t> tokens, std::span<const int64_t> ends, int64_t symbols, int64_t most_order);

  int64_t order() const { return order_; }
  // Nats per predicted token of a text, all but its first, for each order from 1: [order()]. discount: between 0 and 1.
  std::vector<double> Losses(std::span<const int32_t> tokens, double discount) const;
  // The probability of each token as the next one of a text: [symbols].
  std::vector<double> Next(std::span<const int32_t> tokens, double discount) const;

 private:
  double symbols_ = 0;
  int64_t order_ = 0;
  DiscountedCounts counts_;
};

}  // namespace heed

#endif  // HEED_NGRAMS_H_
