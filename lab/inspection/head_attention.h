// The attention weights of every head of a trained model on a text.
#ifndef HEED_LAB_INSPECTION_HEAD_ATTENTION_H_
#define HEED_LAB_INSPECTION_HEAD_ATTENTION_H_

#include <cstdint>
#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lab/inspection/reading.h"

namespace heed::lab {

struct HeadAttention {
  int64_t layer, head;
  at::Tensor weights;                             // float32 [tokens, tokens], contiguous
  at::Tensor entropy, max_weight, mean_distance;  // float32 [tokens], of each query; nats, 1, tokens
};

// `wanted` sorted and without repetition; where it names no layers, or no heads, all of the model. Throws InvalidArgument that
// names layers or heads where the model has no such one, and the encoder where it is not attention.
HeadSelection SelectHeads(const Reading& reading, HeadSelection wanted);

// Lets the model read once, and calls `visit` for every head of the selection, layer by layer. Weights live for a few heads at
// a time. Throws Interruption on Ctrl-C.
void ForEachHead(const Reading& reading, const HeadSelection& selection,
                 const std::function<void(const HeadAttention&)>& visit);

}  // namespace heed::lab

#endif  // HEED_LAB_INSPECTION_HEAD_ATTENTION_H_
