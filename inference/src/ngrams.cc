#include "heed/ngrams.h"
#include "heed/portable_math.h"

#include <algorithm>
#include <cmath>

namespace heed {
namespace {

constexpr int64_t kMostRuns = int64_t{1} << 21;

// A step of SplitMix64 (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators"), which spreads what
// differs little over all bits.
uint64_t Mixed(uint64_t value) {
  value += 0x9e3779b97f4a7c15U;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31);
}

// Tokens are numbers apart from kinds, which keys begin with.
uint64_t Extended(uint64_t key, int32_t token) {
  return Mixed(key ^ Mixed((uint64_t{1} << 32) + static_cast<uint64_t>(token)));
}

// Orders apart from one another: the length is their kind.
uint64_t ContextOf(std::span<const int32_t> tokens) { return ContextKey(tokens.size(), tokens); }

}  // namespace

uint64_t ContextKey(uint64_t kind, std::span<const int32_t> tokens) {
  uint64_t key = Mixed(kind);
  for (const int32_t token : tokens) key = Extended(key, token);
  return key;
}

void ForEachCounted(std::span<const int64_t> ends, const std::function<void(int64_t begin, int64_t end)>& visit) {
  const int64_t size = ends.empty() ? 0 : ends.back();
  const double share = std::min(1.0, static_cast<double>(kMostCounted) / static_cast<double>(std::max<int64_t>(1, size)));
  int64_t begin = 0;
  for (const int64_t end : ends) {
    visit(begin, begin + static_cast<int64_t>(share * static_cast<double>(end - begin)));
    begin = end;
  }
}

void DiscountedCounts::Count(uint64_t context, int32_t token) {
  Context& seen = contexts_[context];
  ++seen.total;
  if (++runs_[Extended(context, token)] == 1) ++seen.different;
}

double DiscountedCounts::Probability(uint64_t context, int32_t token, double discount, double below) const {
  const auto found = contexts_.find(context);
  if (found == contexts_.end()) return below;
  const auto run = runs_.find(Extended(context, token));
  const double seen = run == runs_.end() ? 0.0 : run->second, total = found->second.total;
  return (std::max(seen - discount, 0.0) + discount * found->second.different * below) / total;
}

NGrams::NGrams(std::span<const int32_t> tokens, std::span<const int64_t> ends, int64_t symbols, int64_t most_order)
    : symbols_(static_cast<double>(symbols)) {
  for (int64_t order = 1; order <= most_order && counts_.different() <= kMostRuns; ++order) {
    ForEachCounted(ends, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin + order - 1; i < end; ++i)
        counts_.Count(ContextOf(tokens.subspan(i - order + 1, order - 1)), tokens[i]);
    });
    order_ = order;
  }
}

std::vector<double> NGrams::Losses(std::span<const int32_t> tokens, double discount) const {
  std::vector<double> losses(static_cast<std::size_t>(order_), 0.0);
  const int64_t count = std::ssize(tokens);
  for (int64_t i = 1; i < count; ++i) {
    double probability = 1 / symbols_;
    for (int64_t n = 1; n <= order_; ++n) {
      // Near the start there is no longer context than all of it.
      if (n <= i + 1)
        probability = counts_.Probability(ContextOf(tokens.subspan(i - n + 1, n - 1)), tokens[i], discount, probability);
      losses[static_cast<std::size_t>(n - 1)] -= portable::Log(probability) / static_cast<double>(count - 1);
    }
  }
  return losses;
}

std::vector<double> NGrams::Next(std::span<const int32_t> tokens, double discount) const {
  std::vector<double> probabilities(static_cast<std::size_t>(symbols_), 1 / symbols_);
  for (int64_t n = 1; n <= order_ && n <= std::ssize(tokens) + 1; ++n) {
    const uint64_t context = ContextOf(tokens.last(static_cast<std::size_t>(n - 1)));
    for (std::size_t token = 0; token < probabilities.size(); ++token)
      probabilities[token] = counts_.Probability(context, static_cast<int32_t>(token), discount, probabilities[token]);
  }
  return probabilities;
}

}  // namespace heed
