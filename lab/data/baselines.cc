#include "lab/data/baselines.h"

#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

namespace heed::lab {

Baselines CountBaselines(const Corpus& corpus) {
  const std::size_t symbols = static_cast<std::size_t>(corpus.vocabulary.size());
  std::vector<double> single(symbols, 1.0), pair(symbols * symbols, 0.0),
      first(symbols, 0.0);  // one more than counted: never 0
  for (std::size_t i = 0; i < corpus.train.size(); ++i) {
    single[corpus.train[i]] += 1;
    if (i == 0) continue;
    pair[corpus.train[i - 1] * symbols + corpus.train[i]] += 1;
    first[corpus.train[i - 1]] += 1;
  }
  const double total = std::accumulate(single.begin(), single.end(), 0.0);
  Baselines sums;
  for (std::size_t i = 1; i < corpus.validation.size(); ++i) {
    const std::size_t before = corpus.validation[i - 1], here = corpus.validation[i];
    const double frequency = single[here] / total;
    sums.frequencies -= std::log(frequency);
    // One further pair, spread by the frequencies, keeps pairs that never occurred above zero.
    sums.previous_character -= std::log((pair[before * symbols + here] + frequency) / (first[before] + 1));
  }
  const double count = static_cast<double>(corpus.validation.size() - 1);
  return {sums.frequencies / count, sums.previous_character / count};
}

}  // namespace heed::lab
