// Attention maps of a trained model on what it reads.
#ifndef HEED_LAB_INSPECTION_INSPECTION_H_
#define HEED_LAB_INSPECTION_INSPECTION_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lab/inspection/reading.h"
#include "lab/inspection/weight_map.h"

namespace heed::lab {

// What a head gives its queries.
struct HeadAttention {
  int64_t layer, head;
  at::Tensor weights;                             // float32 [tokens, tokens], contiguous
  at::Tensor entropy, max_weight, mean_distance;  // float32 [tokens], of each query; nats, 1, tokens
};

// Means over all queries of a head.
struct HeadStatistics {
  double entropy = 0;        // nats
  double max_weight = 0;     // of a query's largest weight
  double mean_distance = 0;  // tokens, weighted by attention
  double first_token = 0;    // share of the attention that the first token takes
};
HeadStatistics MeansOf(const HeadAttention& head);

struct HeadMap {
  int64_t layer, head;
  HeadStatistics statistics;
  std::vector<uint8_t> thumbnail, thumbnail_without_first;
  std::string codes;  // packed
};

struct InspectionOptions {
  HeadSelection selection;      // empty lists: all of the model
  int64_t budget = 29'000'000;  // bytes that the packed maps may take in a page
};

struct Inspection {
  Reading reading;
  HeadSelection selection;
  WeightCode code;
  MapGeometry geometry;
  int64_t thumbnail_side;
  std::vector<HeadMap> maps;  // layer by layer

  // Whether something was given up for the budget.
  bool reduced() const { return geometry.bin > 1 || code.steps_per_octave() < WeightCode::kMostSteps; }
};

// Maps of one pass over what the model reads. Where they would not fit the budget, weights become less precise first, then
// cells become coarser, until they do; the result says which. on_head hears how many heads are done, and of how many, from 1
// again for each attempt. Throws as SelectHeads does, and Interruption.
Inspection Inspect(const Reading& reading, const InspectionOptions& options,
                   const std::function<void(int64_t done, int64_t heads)>& on_head = {});

// `wanted` sorted and without repetition; where it names no layers, or no heads, all of the model. Throws InvalidArgument that
// names layers or heads where the model has no such one, and the encoder where it is not attention.
HeadSelection SelectHeads(const Reading& reading, HeadSelection wanted);

// Lets the model read once, and calls `visit` for every head of the selection, layer by layer. Weights live for a few heads at
// a time. Throws Interruption on Ctrl-C.
void ForEachHead(const Reading& reading, const HeadSelection& selection,
                 const std::function<void(const HeadAttention&)>& visit);

}  // namespace heed::lab

#endif  // HEED_LAB_INSPECTION_INSPECTION_H_
