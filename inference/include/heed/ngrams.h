// Counts tokens in contexts, and predicts the next token from the counts.
#ifndef HEED_NGRAMS_H_
#define HEED_NGRAMS_H_

#include <cstdint>
#include <functional>
#include <iterator>
#include <span>
#include <unordered_map>
#include <vector>

namespace heed {

// The most tokens of a text that are counted.
inline constexpr int64_t kMostCounted = int64_t{1} << 20;
// The most tokens of a run.
inline constexpr int64_t kMostOrder = 12;

// The key of a context: its tokens, and their kind, such as how many of them precede the predicted one. 64 bits make collisions
// among millions of contexts unlikely.
uint64_t ContextKey(uint64_t kind, std::span<const int32_t> tokens);

// Calls visit(begin, end) for the counted part of each passage: all of it in a text of up to kMostCounted tokens, in a longer
// text the same share of each passage, from its first token on. ends: of the passages, ascending.
void ForEachCounted(std::span<const int64_t> ends, const std::function<void(int64_t begin, int64_t end)>& visit);

class DiscountedCounts {
 public:
  void Count(uint64_t context, int32_t token);
  // Different pairs of a context and a token.
  int64_t different() const { return std::ssize(runs_); }
  // Interpolated absolute discounting (Ney, Essen and Kneser 1994, "On structuring probabilistic dependences in stochastic
  // language modelling", section 4): subtracts a discount, between 0 and 1, from every count and distributes it by `below`, the
  // prediction from a shorter context. `below` itself for an unseen context.
  double Probability(uint64_t context, int32_t token, double discount, double below) const;

 private:
  struct Context {
    uint32_t total = 0, different = 0;  // tokens seen in it
  };
  std::unordered_map<uint64_t, uint32_t> runs_;     // counts by the hash of context and token
  std::unordered_map<uint64_t, Context> contexts_;  // by their keys
};

// Counts each run of up to `order()` tokens within passages. It predicts a token from the order - 1 tokens before it (see
// DiscountedCounts); `below` is the prediction from one token less, and for no token a uniform one.
class NGrams {
 public:
  NGrams() = default;
  // Counts the parts that ForEachCounted visits, with orders up to `most_order` while all have at most two million different
  // runs. Tokens are 0 .. symbols - 1.
  NGrams(std::span<const int32_t> tokens, std::span<const int64_t> ends, int64_t symbols, int64_t most_order);

  int64_t order() const { return order_; }
  // Nats per token of a text, without its first, for each order from 1: [order()]. discount: between 0 and 1.
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
