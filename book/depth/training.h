// A stack trained for a few steps: whether it learns, how fast, and what has become of it.
#ifndef HEED_BOOK_DEPTH_TRAINING_H_
#define HEED_BOOK_DEPTH_TRAINING_H_

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "book/depth/options.h"
#include "book/depth/profile.h"
#include "lab/data/corpus.h"
#include "lab/data/text.h"
#include "lab/runs/job.h"

namespace heed::lab {

struct Batch;

struct TrainedStack {
  std::string variant;
  int64_t layers = 0, parameters = 0;
  // 0, or the step, the last one that was done, whose loss, gradient, updated parameters or validation were not all finite.
  int64_t broke_at = 0;
  double loss = 0;                    // on validation text, nats per character; NaN where the numbers broke
  double microseconds_per_token = 0;  // of a training step, of the thread's own time
  StackProfile profile;               // afterwards, on the batch that untrained stacks are measured on
};

// Trains with the next character as objective and no positions beside the causal mask, in the calling thread; several calls
// may run side by side. A step is as much work as there are layers. Throws Interruption on Ctrl-C.
TrainedStack TrainStack(const Corpus& corpus, const DepthOptions& options, const StackVariant& variant, int64_t layers,
                        const OnWork& on_work);

// The windows that stacks are measured on; the same for every stack of an objective.
Batch ProfileBatch(const Corpus& corpus, const DepthOptions& options, Objective objective);

// Numbers survive the way to JSON and back bit by bit. The second throws nlohmann::json::exception or InvalidArgument when the
// JSON does not hold such a stack.
nlohmann::ordered_json ToJson(const TrainedStack& stack);
TrainedStack TrainedStackFromJson(const nlohmann::ordered_json& json, int64_t heads);

}  // namespace heed::lab

#endif  // HEED_BOOK_DEPTH_TRAINING_H_
