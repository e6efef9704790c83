#include "lab/data/ngrams.h"

#include <algorithm>
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

std::string CountingName(const CountedText& counted) {
  if (counted.order == 1) return "counting single characters";
  return "counting runs of " + std::to_string(counted.order) + " characters";
}

CountedText CountText(const Passages& train, int64_t symbols, const std::vector<std::vector<int32_t>>& validation,
                      const std::vector<std::vector<int32_t>>& test) {
  const NGrams grams(train.tokens, train.ends, symbols, kMostOrder);
  std::vector<std::vector<double>> by_discount;  // [discounts, orders]
  for (const double discount : kDiscounts) by_discount.push_back(MeanLosses(grams, validation, discount));
  const auto best_of = [&](std::size_t n) {
    const auto best = std::ranges::min_element(by_discount, {}, [n](const auto& losses) { return losses[n]; });
    return static_cast<std::size_t>(best - by_discount.begin());
  };
  std::size_t chosen = 0;
  for (std::size_t n = 1; n < static_cast<std::size_t>(grams.order()); ++n) {
    if (by_discount[best_of(n)][n] < by_discount[best_of(chosen)][chosen]) chosen = n;
  }
  CountedText counted{static_cast<int64_t>(chosen) + 1, kDiscounts[best_of(chosen)], {}, {}, {}};
  const std::size_t second = std::min<std::size_t>(1, static_cast<std::size_t>(grams.order()) - 1);
  counted.frequencies_discount = kDiscounts[best_of(0)], counted.one_before_discount = kDiscounts[best_of(second)];
  for (const std::vector<int32_t>& block : test) {
    std::map<std::size_t, std::vector<double>> by_discount_of_block;
    const auto loss = [&](std::size_t n) {
      std::vector<double>& losses = by_discount_of_block[best_of(n)];
      if (losses.empty()) losses = grams.Losses(block, kDiscounts[best_of(n)]);
      return losses[n];
    };
    counted.losses.push_back(loss(chosen));
    counted.frequencies.push_back(loss(0));
    counted.one_before.push_back(loss(second));
  }
  return counted;
}

}  // namespace heed::lab
