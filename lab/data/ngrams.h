// A model of text that only counts: what a trained one has to beat.
#ifndef HEED_LAB_DATA_NGRAMS_H_
#define HEED_LAB_DATA_NGRAMS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lab/data/discounted_counts.h"
#include "lab/data/passages.h"

namespace heed::lab {

inline constexpr int64_t kMostOrder = 12;  // that is tried

// How often each run of up to `order()` tokens occurs. A token is predicted from the order - 1 tokens before it, see
// DiscountedCounts, spread by the prediction from one token less, down to a uniform one.
class NGrams {
 public:
  // Counts what ForEachCounted visits, and orders up to `most_order` as long as they have at
  // most two million different runs in all. There are `symbols` different tokens.
  NGrams(const Passages& text, int64_t symbols, int64_t most_order);

  int64_t order() const { return order_; }
  // Nats per predicted token of a text, all but its first, for each order from 1: [order()]. discount: between 0 and 1.
  std::vector<double> Losses(const std::vector<int32_t>& tokens, double discount) const;
  // The probability of each token as the next one of a text: [symbols].
  std::vector<double> Next(const std::vector<int32_t>& tokens, double discount) const;

 private:
  double symbols_;
  int64_t order_ = 0;
  DiscountedCounts counts_;
};

// The order and the discount that lose least on some blocks of a text, and what they lose on others, by block.
struct CountedText {
  int64_t order = 0;
  double discount = 0;
  std::vector<double> losses;                     // of that order
  std::vector<double> frequencies, one_before{};  // of orders 1 and 2, with discounts of their own:
  double frequencies_discount = 0, one_before_discount = 0;
};
CountedText CountText(const Passages& train, int64_t symbols, const std::vector<std::vector<int32_t>>& validation,
                      const std::vector<std::vector<int32_t>>& test);

// "counting runs of 5 characters".
std::string CountingName(const CountedText& counted);

}  // namespace heed::lab

#endif  // HEED_LAB_DATA_NGRAMS_H_
