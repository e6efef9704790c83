#include "lab/data/discounted_counts.h"

#include <algorithm>

namespace heed::lab {
namespace {

constexpr int64_t kMostTokens = int64_t{1} << 20;

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

}  // namespace

uint64_t ContextKey(uint64_t kind, std::span<const int32_t> tokens) {
  uint64_t key = Mixed(kind);
  for (const int32_t token : tokens) key = Extended(key, token);
  return key;
}

void ForEachCounted(const Passages& text, const std::function<void(int64_t begin, int64_t end)>& visit) {
  const double share = std::min(1.0, static_cast<double>(kMostTokens) / static_cast<double>(std::max<int64_t>(1, text.size())));
  int64_t begin = 0;
  for (const int64_t end : text.ends) {
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

}  // namespace heed::lab
