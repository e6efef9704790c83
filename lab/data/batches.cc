#include "lab/data/batches.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>

#include "heed/error.h"

namespace heed::lab {
namespace {

constexpr double kMaskedShare = 0.15;          // Devlin et al. 2019, "BERT", section 3.1
constexpr uint64_t kValidationMaskSeed = 271;  // any fixed number: runs are compared on the same masks

int64_t MaskedCount(int64_t steps) { return std::max<int64_t>(1, std::llround(kMaskedShare * static_cast<double>(steps))); }

at::Tensor EmptyTokens(at::IntArrayRef shape) { return at::empty(shape, at::kLong); }

Batch CausalBatch(const std::vector<int32_t>& tokens, const std::vector<int64_t>& starts, int64_t steps) {
  const int64_t windows = static_cast<int64_t>(starts.size());
  Batch batch{EmptyTokens({windows, steps}), EmptyTokens({windows * steps}), {}};
  int64_t* input = batch.inputs.mutable_data_ptr<int64_t>();
  int64_t* target = batch.targets.mutable_data_ptr<int64_t>();
  for (const int64_t start : starts) {
    const auto first = tokens.begin() + start;
    input = std::copy(first, first + steps, input);
    target = std::copy(first + 1, first + 1 + steps, target);
  }
  return batch;
}

Batch MaskedBatch(const std::vector<int32_t>& tokens, const std::vector<int64_t>& starts, int64_t steps, int32_t mask_symbol,
                  Random& random) {
  const int64_t windows = static_cast<int64_t>(starts.size()), masked = MaskedCount(steps);
  Batch batch{EmptyTokens({windows, steps}), EmptyTokens({windows * masked}), EmptyTokens({windows * masked})};
  int64_t* input = batch.inputs.mutable_data_ptr<int64_t>();
  int64_t* target = batch.targets.mutable_data_ptr<int64_t>();
  int64_t* row = batch.rows.mutable_data_ptr<int64_t>();
  std::vector<int64_t> order(steps);
  for (int64_t window = 0; window < windows; ++window) {
    int64_t* const line = input + window * steps;
    std::copy_n(tokens.begin() + starts[window], steps, line);
    std::iota(order.begin(), order.end(), 0);
    for (int64_t i = 0; i < masked; ++i) {  // the first steps of a Fisher-Yates shuffle
      std::swap(order[i], order[i + static_cast<int64_t>(random.Below(steps - i))]);
      *target++ = line[order[i]];
      *row++ = window * steps + order[i];
      line[order[i]] = mask_symbol;
    }
  }
  return batch;
}

Batch MakeBatch(const std::vector<int32_t>& tokens, const WindowOptions& options, const std::vector<int64_t>& starts,
                int64_t steps, Random& random) {
  if (options.objective == Objective::kCausal) return CausalBatch(tokens, starts, steps);
  return MaskedBatch(tokens, starts, steps, options.mask_symbol, random);
}

// The predictions of a window's steps from `first` on alone.
Batch From(int64_t first, Batch batch) {
  if (first == 0) return batch;
  const at::Tensor rows = at::arange(batch.inputs.numel()).view(batch.inputs.sizes()).slice(1, first).flatten();
  return {batch.inputs, batch.targets.index_select(0, rows), rows};
}

}  // namespace

Batch RandomBatch(const Passages& passages, const WindowOptions& options, Random& random) {
  // Of every passage, the places whose window has a character behind it.
  std::vector<int64_t> firsts, places_before = {0};
  int64_t begin = 0;
  for (const int64_t end : passages.ends) {
    firsts.push_back(begin);
    places_before.push_back(places_before.back() + std::max<int64_t>(0, end - begin - options.context));
    begin = end;
  }
  std::vector<int64_t> starts(options.batch);
  for (int64_t& start : starts) {
    const auto place = static_cast<int64_t>(random.Below(static_cast<uint64_t>(places_before.back())));
    const auto passage = std::ranges::upper_bound(places_before, place) - places_before.begin() - 1;
    start = firsts[passage] + place - places_before[passage];
  }
  return MakeBatch(passages.tokens, options, starts, options.context, random);
}

int64_t ForEachBatch(const std::vector<int32_t>& tokens, const WindowOptions& options,
                     const std::function<void(const Batch&)>& visit) {
  Random random(kValidationMaskSeed);
  const int64_t usable = static_cast<int64_t>(tokens.size()) - (options.objective == Objective::kCausal ? 1 : 0);
  const bool overlap = options.objective == Objective::kCausal && options.stride > 0 && options.stride < options.context;
  const int64_t stride = overlap ? options.stride : options.context;
  int64_t predictions = 0;
  const auto flush = [&](std::vector<int64_t>& starts, int64_t steps, int64_t first = 0) {
    if (starts.empty()) return;
    const Batch batch = From(first, MakeBatch(tokens, options, starts, steps, random));
    predictions += batch.targets.numel();
    starts.clear();
    visit(batch);
  };
  std::vector<int64_t> starts;
  int64_t start = 0;
  for (; start + options.context <= usable; start += stride) {
    starts.push_back(start);
    const bool alone = overlap && start == 0;  // all of its steps predict
    if (alone || static_cast<int64_t>(starts.size()) == options.batch)
      flush(starts, options.context, alone ? 0 : options.context - stride);
  }
  flush(starts, options.context, options.context - stride);
  const int64_t end = start == 0 ? 0 : start - stride + options.context;  // of the last window
  if (end < usable) {
    const int64_t steps = std::min(usable, overlap ? options.context : usable - end);
    starts.push_back(usable - steps);
    flush(starts, steps, steps - (usable - end));
  }
  return predictions;
}

}  // namespace heed::lab
