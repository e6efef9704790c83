// A model of text that only counts: what a trained one has to beat.
#ifndef HEED_LAB_DATA_NGRAMS_H_
#define HEED_LAB_DATA_NGRAMS_H_

#include <cstdint>
#include <vector>

#include "heed/ngrams.h"
#include "lab/data/passages.h"

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

}  // namespace heed::lab

#endif  // HEED_LAB_DATA_NGRAMS_H_
