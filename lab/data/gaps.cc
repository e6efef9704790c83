#include "lab/data/gaps.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/core/Tensor.h>

#include "lab/data/batches.h"
#include "lab/data/run_hash.h"

namespace heed::lab {
namespace {

constexpr int64_t kMostCounted = int64_t{1} << 20;  // tokens
constexpr double kGapDiscounts[] = {0.3, 0.5, 0.7, 0.9};

// What is known of a hidden token.
uint64_t NothingKnown() { return Mixed(0); }
uint64_t LeftKnown(int32_t left) { return Extended(Mixed(1), left); }
uint64_t RightKnown(int32_t right) { return Extended(Mixed(2), right); }
uint64_t BothKnown(int32_t left, int32_t right) { return Extended(Extended(Mixed(3), left), right); }

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

void GapCounts::Count(uint64_t context, int32_t token) {
  Context& seen = contexts_[context];
  ++seen.total;
  if (++runs_[Extended(context, token)] == 1) ++seen.different;
}

GapCounts::GapCounts(const Passages& text, int64_t symbols) : symbols_(static_cast<double>(symbols)) {
  const double share =
      std::min(1.0, static_cast<double>(kMostCounted) / static_cast<double>(std::max<int64_t>(1, text.size())));
  int64_t begin = 0;
  for (const int64_t end : text.ends) {
    const int64_t counted = begin + static_cast<int64_t>(share * static_cast<double>(end - begin));
    for (int64_t i = begin; i < counted; ++i) {
      const int32_t token = text.tokens[i];
      const bool left = i > begin, right = i + 1 < counted;
      Count(NothingKnown(), token);
      if (left) Count(LeftKnown(text.tokens[i - 1]), token);
      if (right) Count(RightKnown(text.tokens[i + 1]), token);
      if (left && right) Count(BothKnown(text.tokens[i - 1], text.tokens[i + 1]), token);
    }
    begin = end;
  }
}

double GapCounts::Discounted(uint64_t context, int32_t token, double discount, double below) const {
  const auto found = contexts_.find(context);
  if (found == contexts_.end()) return below;
  const auto run = runs_.find(Extended(context, token));
  const double seen = run == runs_.end() ? 0.0 : run->second;
  return (std::max(seen - discount, 0.0) + discount * found->second.different * below) / found->second.total;
}

double GapCounts::Probability(int32_t left, int32_t token, int32_t right, double discount) const {
  const double frequency = Discounted(NothingKnown(), token, discount, 1 / symbols_);
  if (left == kHidden && right == kHidden) return frequency;
  if (right == kHidden) return Discounted(LeftKnown(left), token, discount, frequency);
  const double by_right = Discounted(RightKnown(right), token, discount, frequency);
  if (left == kHidden) return by_right;
  const double by_left = Discounted(LeftKnown(left), token, discount, frequency);
  return Discounted(BothKnown(left, right), token, discount, (by_left + by_right) / 2);
}

std::vector<double> GapLosses(const Passages& train, int64_t symbols, const std::vector<std::vector<int32_t>>& validation,
                              const std::vector<std::vector<int32_t>>& test, int64_t context) {
  const GapCounts counts(train, symbols);
  WindowOptions windows{.objective = Objective::kMasked, .context = context};
  windows.mask_symbol = static_cast<int32_t>(symbols);
  double best = 0, least = std::numeric_limits<double>::infinity();
  for (const double discount : kGapDiscounts) {
    double sum = 0;
    for (const std::vector<int32_t>& block : validation) sum += BlockLoss(counts, block, windows, discount);
    if (sum < least) least = sum, best = discount;
  }
  std::vector<double> losses;
  losses.reserve(test.size());
  for (const std::vector<int32_t>& block : test) losses.push_back(BlockLoss(counts, block, windows, best));
  return losses;
}

}  // namespace heed::lab
