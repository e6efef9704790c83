// Attention over a batch whose rows have lengths of their own.
#ifndef HEED_INFERENCE_SRC_BATCH_ATTENTION_H_
#define HEED_INFERENCE_SRC_BATCH_ATTENTION_H_

#include <cstdint>

#include "heed/attention.h"
#include "heed/executor.h"
#include "heed/view.h"

namespace heed {

// heed::Forward of queries that stand beside the keys, [B, H, N, D] both; row b counts lengths[b] steps, null: all of them. The
// outputs of steps that count have the bits that they have where the row is computed alone, without the steps behind it. The
// others hold anything.
void ForwardBatch(const Attention& attention, View<const float, 4> q, View<const float, 4> k, View<const float, 4> v,
                  View<float, 4> out, const int64_t* lengths, Executor& executor);

}  // namespace heed

#endif  // HEED_INFERENCE_SRC_BATCH_ATTENTION_H_
