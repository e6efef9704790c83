#include "lab/data/ngrams.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <map>

#include <ATen/core/Tensor.h>

#include "lab/data/batches.h"

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

// What is known of a hidden token.
enum Known : uint64_t { kNothing, kLeft, kRight, kBoth };
uint64_t ContextOf(Known known, std::initializer_list<int32_t> neighbours) {
  return ContextKey(known, {neighbours.begin(), neighbours.size()});
}

double BlockLoss(const GapCounts& counts, const std::vector<int32_t>& block, const WindowOptions& windows, double discount) {
  double sum = 0;
  const int64_t hidden = ForEachBatch(block, windows, [&](const Batch& batch) {
    const int64_t* const inputs = batch.inputs.const_data_ptr<int64_t>();
    const int64_t steps = batch.inputs.size(1);
    const auto seen = [&](int64_t row, int64_t step) {
      const int64_t token = step < 0 || step == steps ? windows.mask_symbol : inputs[row * steps + step];
      return token == windows.mask_symbol ? GapCounts::kHidden : static_cast<int32_t>(token);
    };
    for (int64_t i = 0; i < batch.targets.numel(); ++i) {
      const int64_t place = batch.rows.const_data_ptr<int64_t>()[i], row = place / steps, step = place % steps;
      const auto token = static_cast<int32_t>(batch.targets.const_data_ptr<int64_t>()[i]);
      sum -= std::log(counts.Probability(seen(row, step - 1), token, seen(row, step + 1), discount));
    }
  });
  return sum / static_cast<double>(hidden);
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

GapCounts::GapCounts(const Passages& text, int64_t symbols) : symbols_(static_cast<double>(symbols)) {
  ForEachCounted(text.ends, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int32_t* const token = &text.tokens[i];
      const bool left = i > begin, right = i + 1 < end;
      counts_.Count(ContextOf(kNothing, {}), *token);
      if (left) counts_.Count(ContextOf(kLeft, {token[-1]}), *token);
      if (right) counts_.Count(ContextOf(kRight, {token[1]}), *token);
      if (left && right) counts_.Count(ContextOf(kBoth, {token[-1], token[1]}), *token);
    }
  });
}

double GapCounts::Probability(int32_t left, int32_t token, int32_t right, double discount) const {
  const auto from = [&](uint64_t context, double below) { return counts_.Probability(context, token, discount, below); };
  const double frequency = from(ContextOf(kNothing, {}), 1 / symbols_);
  if (left == kHidden && right == kHidden) return frequency;
  if (right == kHidden) return from(ContextOf(kLeft, {left}), frequency);
  const double by_right = from(ContextOf(kRight, {right}), frequency);
  if (left == kHidden) return by_right;
  return from(ContextOf(kBoth, {left, right}), (from(ContextOf(kLeft, {left}), frequency) + by_right) / 2);
}

CountedText CountGaps(const Passages& train, int64_t symbols, const std::vector<std::vector<int32_t>>& validation,
                      const std::vector<std::vector<int32_t>>& test, int64_t context) {
  const GapCounts counts(train, symbols);
  const WindowOptions windows{
      .objective = Objective::kMasked, .context = context, .mask_symbol = static_cast<int32_t>(symbols)};
  CountedText counted{.validation = std::numeric_limits<double>::infinity()};
  for (const double discount : kDiscounts) {
    double sum = 0;
    for (const std::vector<int32_t>& block : validation) sum += BlockLoss(counts, block, windows, discount);
    const double loss = sum / static_cast<double>(validation.size());
    if (loss < counted.validation) counted.validation = loss, counted.discount = discount;
  }
  counted.losses.reserve(test.size());
  for (const std::vector<int32_t>& block : test) counted.losses.push_back(BlockLoss(counts, block, windows, counted.discount));
  return counted;
}

}  // namespace heed::lab
