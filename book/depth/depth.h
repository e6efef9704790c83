// Measures how depth changes a stack of attention layers, untrained and after a short training.
#ifndef HEED_BOOK_DEPTH_DEPTH_H_
#define HEED_BOOK_DEPTH_DEPTH_H_

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "book/depth/options.h"
#include "book/depth/profile.h"
#include "lab/data/corpus.h"
#include "lab/data/text.h"
#include "lab/report/result_store.h"
#include "lab/runs/job.h"

namespace heed::lab {

// A stack that was measured: as its weights are drawn, or trained for a few steps.
struct DepthStack {
  std::string variant, position = "none";
  Objective objective = Objective::kCausal;  // kMasked: every token sees all, kCausal: those before it
  StackProfile profile;                      // of a trained one afterwards, on the batch that the others are measured on
  int64_t layers = 0;
  // Of trained ones.
  int64_t parameters = 0;
  // 0, or the step, the last one that was done, whose loss, gradient, updated parameters or validation were not all finite.
  int64_t broke_at = 0;
  double loss = 0;                    // on validation text, nats per character; NaN where the numbers broke
  double microseconds_per_token = 0;  // of a training step, of the thread's own time
};

// Measures a stack as its weights are drawn.
StackProfile ProfileStarted(const Corpus& corpus, const DepthOptions& options, const DepthStack& stack);
// Trains a stack of this variant and depth with the next character as objective and no positions beside the causal mask, in the
// calling thread; several calls may run side by side. A step is as much work as there are layers. Throws Interruption on
// Ctrl-C.
DepthStack TrainStack(const Corpus& corpus, const DepthOptions& options, const DepthStack& stack, const OnWork& on_work);

// Numbers survive the way to JSON and back bit by bit. The second throws nlohmann::json::exception or InvalidArgument when the
// JSON does not hold such a stack.
nlohmann::ordered_json ToJson(const DepthStack& stack);
DepthStack TrainedStackFromJson(const nlohmann::ordered_json& json, int64_t heads);

// A profile under the name that figures and sentences have for its stack.
struct NamedProfile {
  std::string name;
  const StackProfile* profile;
};

struct DepthResult {
  DepthOptions options;
  // Every variant without positions, first with all tokens in sight, then causally; then attention alone with each scheme.
  std::vector<DepthStack> started;
  std::vector<DepthStack> trained;  // by the order of options.trained, then by depth
  double frequencies = 0;           // loss of each character by its frequency, on the characters that `trained` saw

  // Null where it was not measured.
  const DepthStack* Started(const std::string& variant, const std::string& position, Objective objective) const;
  const DepthStack* Trained(const std::string& variant, int64_t layers) const;
  // As they start, in the order of the options: the variants without positions; attention alone with each scheme.
  std::vector<NamedProfile> Variants(Objective objective) const;
  std::vector<NamedProfile> Positions() const;
};

// Measures options.threads stacks at a time, with one progress bar on stderr; those that the store holds, where there is one,
// are not measured again (DoJobs). Throws InvalidArgument that names the option, and Interruption on Ctrl-C.
DepthResult MeasureDepth(const Corpus& corpus, const DepthOptions& options, const std::string& what = "depth",
                         const ResultStore* store = nullptr);

}  // namespace heed::lab

#endif  // HEED_BOOK_DEPTH_DEPTH_H_
