// Windows of tokens with what is to be predicted from them.
#ifndef HEED_LAB_DATA_BATCHES_H_
#define HEED_LAB_DATA_BATCHES_H_

#include <cstdint>
#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lab/data/random.h"
#include "lab/data/text.h"

namespace heed::lab {

struct Batch {
  at::Tensor inputs;   // int64 [windows, steps]
  at::Tensor targets;  // int64 [predictions]
  at::Tensor rows;     // int64 [predictions]: rows of the flattened inputs that predict; undefined: all rows, in order
};

// How windows become predictions. Masked windows hide round(0.15 * steps) characters, at least one, chosen without repetition,
// behind `mask_symbol`.
struct WindowOptions {
  Objective objective = Objective::kCausal;
  int64_t context = 64;     // steps of a full window
  int64_t batch = 12;       // windows in a batch
  int32_t mask_symbol = 0;  // a token outside the vocabulary
  // A pass over a text by the causal objective begins a window every `stride` tokens; 0: every `context`. Where windows
  // overlap, only those steps predict that no window before holds, so each window but the first has context - stride steps
  // before its predictions.
  int64_t stride = 0;
};

// `batch` windows that begin at random places, each within a passage. One of them must hold at least context + 1 tokens.
Batch RandomBatch(const Passages& passages, const WindowOptions& options, Random& random);

// Every token once, in consecutive windows of `context` steps and a shorter last one (of windows that overlap one that ends
// with the text), `batch` windows at a time. Causal: every token but the first is predicted once. Masked: the masks are the
// same in every pass. Returns the number of predictions.
int64_t ForEachBatch(const std::vector<int32_t>& tokens, const WindowOptions& options,
                     const std::function<void(const Batch&)>& visit);

}  // namespace heed::lab

#endif  // HEED_LAB_DATA_BATCHES_H_
