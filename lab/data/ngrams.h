// A model of text that only counts: what a trained one has to beat.
#ifndef HEED_LAB_DATA_NGRAMS_H_
#define HEED_LAB_DATA_NGRAMS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "lab/data/passages.h"

namespace heed::lab {

// How often each run of up to `order()` tokens occurs. A token is predicted from the order - 1 tokens before it by interpolated
// absolute discounting (Ney, Essen and Kneser 1994, "On structuring probabilistic dependences in stochastic language
// modelling", section 4): a discount is taken off every count and spread by the prediction from one token less, down to a
// uniform one.
class NGrams {
 public:
  // Counts at most a million tokens, the first of each passage alike, and orders up to `most_order` as long as they have at
  // most two million different runs in all. There are `symbols` different tokens.
  NGrams(const Passages& text, int64_t symbols, int64_t most_order);

  int64_t order() const { return order_; }
  // Nats per predicted token of a text, all but its first, for each order from 1: [order()]. discount: between 0 and 1.
  std::vector<double> Losses(const std::vector<int32_t>& tokens, double discount) const;

 private:
  struct Context {
    uint32_t total = 0, different = 0;  // tokens that followed it
  };
  uint64_t ContextKey(const int32_t* begin, int64_t length) const;

  double symbols_;
  int64_t order_ = 0;
  std::unordered_map<uint64_t, uint32_t> runs_;     // counts by the hash of context and token
  std::unordered_map<uint64_t, Context> contexts_;  // by their hash
};

// The order and the discount that lose least on some blocks of a text, and what they lose on others, by block.
struct CountedText {
  int64_t order = 0;
  double discount = 0;
  std::vector<double> losses;                     // of that order
  std::vector<double> frequencies, one_before{};  // of orders 1 and 2, with discounts of their own
};
CountedText CountText(const Passages& train, int64_t symbols, const std::vector<std::vector<int32_t>>& validation,
                      const std::vector<std::vector<int32_t>>& test);

// "counting runs of 5 characters".
std::string CountingName(const CountedText& counted);

}  // namespace heed::lab

#endif  // HEED_LAB_DATA_NGRAMS_H_
