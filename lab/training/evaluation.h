// Measures how well a model predicts a text.
#ifndef HEED_LAB_TRAINING_EVALUATION_H_
#define HEED_LAB_TRAINING_EVALUATION_H_

#include <cstdint>
#include <functional>
#include <vector>

namespace heed::lab {

class LanguageModel;
class Ranks;

struct Evaluation {
  int64_t context;  // steps of a window
  int64_t predictions;
  double loss;        // mean cross-entropy, nats per predicted character
  double perplexity;  // exp(loss)
  double tokens_per_second;
};

// Every token once, in windows of `context` steps (0: the context of the training) that begin `stride` steps behind each other
// (0: `context`), without dropout; see ForEachBatch and WindowOptions. Leaves the model in the mode it was in. on_tokens hears
// how many tokens have gone through the model. Throws InvalidArgument that names the context where a learned table ends before
// it or the text has nothing to predict, Divergence where the loss is not finite, and Interruption on Ctrl-C.
//
// With ranks every one computes its share, all return the same, and one that is interrupted ends all of them. The sum is made
// in the same order as without, unless ranks share sequences: each batch's is then made of theirs first.
Evaluation Evaluate(LanguageModel& model, const std::vector<int32_t>& tokens, int64_t context = 0,
                    const std::function<void(int64_t)>& on_tokens = {}, Ranks* ranks = nullptr, int64_t stride = 0);

// Throws InvalidArgument unless windows of `context` steps are in reach of the model.
void RequireReach(const LanguageModel& model, int64_t context);

}  // namespace heed::lab

#endif  // HEED_LAB_TRAINING_EVALUATION_H_
