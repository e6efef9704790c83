// Measures how depth changes a stack of attention layers, untrained and after a short training.
#ifndef HEED_BOOK_DEPTH_DEPTH_H_
#define HEED_BOOK_DEPTH_DEPTH_H_

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "book/depth/options.h"
#include "book/depth/profile.h"
#include "book/depth/training.h"
#include "lab/data/corpus.h"
#include "lab/data/text.h"
#include "lab/report/result_store.h"

namespace heed::lab {

// A stack as its weights are drawn.
struct StartedStack {
  std::string variant, position;
  Objective objective = Objective::kMasked;  // kMasked: every token sees all, kCausal: those before it
  StackProfile profile;
};

// A profile under the name that figures and sentences have for its stack.
struct NamedProfile {
  std::string name;
  const StackProfile* profile;
};

struct DepthResult {
  DepthOptions options;
  // Every variant without positions, first with all tokens in sight, then causally; then attention alone with each scheme.
  std::vector<StartedStack> started;
  std::vector<TrainedStack> trained;  // by the order of options.trained, then by depth
  double frequencies = 0;             // loss of each character by its frequency, on the characters that `trained` saw

  // Null where it was not measured.
  const StartedStack* Started(const std::string& variant, const std::string& position, Objective objective) const;
  const TrainedStack* Trained(const std::string& variant, int64_t layers) const;
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
