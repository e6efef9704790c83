#include "lab/data/ngrams.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

namespace heed::lab {
namespace {

constexpr int64_t kMostRuns = int64_t{1} << 21;

// Orders apart from one another: the length is their kind.
uint64_t ContextOf(const int32_t* begin, int64_t length) {
  return ContextKey(static_cast<uint64_t>(length), {begin, static_cast<std::size_t>(length)});
}

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

NGrams::NGrams(const Passages& text, int64_t symbols, int64_t most_order) : symbols_(static_cast<double>(symbols)) {
  for (int64_t order = 1; order <= most_order && counts_.different() <= kMostRuns; ++order) {
    ForEachCounted(text, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin + order - 1; i < end; ++i)
        counts_.Count(ContextOf(&text.tokens[i - order + 1], order - 1), text.tokens[i]);
    });
    order_ = order;
  }
}

std::vector<double> NGrams::Losses(const std::vector<int32_t>& tokens, double discount) const {
  std::vector<double> losses(static_cast<std::size_t>(order_), 0.0);
  const int64_t count = std::ssize(tokens);
  for (int64_t i = 1; i < count; ++i) {
    double probability = 1 / symbols_;
    for (int64_t n = 1; n <= order_; ++n) {
      // Near the start there is no longer context than all of it.
      if (n <= i + 1) probability = counts_.Probability(ContextOf(&tokens[i - n + 1], n - 1), tokens[i], discount, probability);
      losses[static_cast<std::size_t>(n - 1)] -= std::log(probability) / static_cast<double>(count - 1);
    }
  }
  return losses;
}

std::vector<double> NGrams::Next(const std::vector<int32_t>& tokens, double discount) const {
  std::vector<double> probabilities(static_cast<std::size_t>(symbols_), 1 / symbols_);
  for (int64_t n = 1; n <= order_ && n <= std::ssize(tokens) + 1; ++n) {
    const uint64_t context = ContextOf(tokens.data() + std::ssize(tokens) - (n - 1), n - 1);
    for (std::size_t token = 0; token < probabilities.size(); ++token)
      probabilities[token] = counts_.Probability(context, static_cast<int32_t>(token), discount, probabilities[token]);
  }
  return probabilities;
}

std::string CountingName(const CountedText& counted) {
  if (counted.order == 1) return "counting single characters";
  return "counting runs of " + std::to_string(counted.order) + " characters";
}

CountedText CountText(const Passages& train, int64_t symbols, const std::vector<std::vector<int32_t>>& validation,
                      const std::vector<std::vector<int32_t>>& test) {
  const NGrams grams(train, symbols, kMostOrder);
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
