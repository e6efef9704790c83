// A model of text that only counts: what a trained one has to beat.
#ifndef HEED_LAB_DATA_NGRAMS_H_
#define HEED_LAB_DATA_NGRAMS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "heed/ngrams.h"
#include "lab/data/passages.h"

namespace heed::lab {

inline constexpr double kDiscounts[] = {0.3, 0.5, 0.7, 0.9};  // among which the validation part chooses

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
