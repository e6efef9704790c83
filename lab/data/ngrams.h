// A model of text that only counts: what a trained one has to beat.
#ifndef HEED_LAB_DATA_NGRAMS_H_
#define HEED_LAB_DATA_NGRAMS_H_

#include <cstdint>
#include <vector>

#include "heed/ngrams.h"
#include "lab/data/text.h"

namespace heed::lab {

inline constexpr double kDiscounts[] = {0.3, 0.5, 0.7, 0.9};  // among which the validation part chooses

// What counting loses with the discount that loses least on the validation part: nats per token.
struct CountedText {
  int64_t order = 1;  // of NGrams
  double discount = 0, validation = 0;
  std::vector<double> losses = {};  // on each block of the test part
};

// Of orders 1 and 2 and of the order that loses least on the validation part; ascending, each once.
std::vector<CountedText> CountText(const Passages& train, int64_t symbols, const std::vector<std::vector<int32_t>>& validation,
                                   const std::vector<std::vector<int32_t>>& test);

// Counts how often each token stood behind its left neighbour, before its right one, and between both. Predicts a hidden token
// from both neighbours; see DiscountedCounts, which falls back on the mean of the predictions from each neighbour, then on the
// frequencies of tokens, then on a uniform one. Uses one neighbour alone if the other is hidden too or outside the window.
class GapCounts {
 public:
  static constexpr int32_t kHidden = -1;

  // Counts what ForEachCounted visits. There are `symbols` different ones.
  GapCounts(const Passages& text, int64_t symbols);

  // left, right: tokens, or kHidden. discount: between 0 and 1.
  double Probability(int32_t left, int32_t token, int32_t right, double discount) const;

 private:
  double symbols_;
  DiscountedCounts counts_;
};

// What it loses in nats per hidden token, where windows of `context` tokens hide as ForEachBatch does.
CountedText CountGaps(const Passages& train, int64_t symbols, const std::vector<std::vector<int32_t>>& validation,
                      const std::vector<std::vector<int32_t>>& test, int64_t context);

}  // namespace heed::lab

#endif  // HEED_LAB_DATA_NGRAMS_H_
