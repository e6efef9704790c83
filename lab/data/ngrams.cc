#include "lab/data/ngrams.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace heed::lab {
namespace {

// The losses of every order, averaged over blocks.
std::vector<double> MeanLosses(const NGrams& grams, const std::vector<std::vector<int32_t>>& blocks, double discount) {
  std::vector<double> means(static_cast<std::size_t>(grams.order()), 0.0);
  for (const std::vector<int32_t>& block : blocks) {
    const std::vector<double> losses = grams.Losses(block, discount);
    for (std::size_t n = 0; n < means.size(); ++n) means[n] += losses[n] / static_cast<double>(blocks.size());
  }
  return means;
}

}  // namespace

std::vector<CountedText> CountText(const Passages& train, int64_t symbols, const std::vector<std::vector<int32_t>>& validation,
                                   const std::vector<std::vector<int32_t>>& test) {
  const NGrams grams(train.tokens, train.ends, symbols, kMostOrder);
  std::vector<CountedText> orders;
  for (int64_t order = 1; order <= grams.order(); ++order) orders.push_back({.order = order, .validation = INFINITY});
  for (const double discount : kDiscounts) {
    const std::vector<double> losses = MeanLosses(grams, validation, discount);
    for (CountedText& of : orders) {
      const double loss = losses[static_cast<std::size_t>(of.order - 1)];
      if (loss < of.validation) of.validation = loss, of.discount = discount;
    }
  }
  const int64_t best = std::ranges::min_element(orders, {}, &CountedText::validation)->order;
  std::erase_if(orders, [&](const CountedText& of) { return of.order > 2 && of.order != best; });
  for (const std::vector<int32_t>& block : test) {
    std::map<double, std::vector<double>> by_discount;
    for (CountedText& of : orders) {
      std::vector<double>& losses = by_discount[of.discount];
      if (losses.empty()) losses = grams.Losses(block, of.discount);
      of.losses.push_back(losses[static_cast<std::size_t>(of.order - 1)]);
    }
  }
  return orders;
}

}  // namespace heed::lab
