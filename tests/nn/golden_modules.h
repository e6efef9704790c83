// The modules of heed that stand for the layers of the golden cases.
#ifndef HEED_TESTS_NN_GOLDEN_MODULES_H_
#define HEED_TESTS_NN_GOLDEN_MODULES_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "golden_cases.h"
#include "heed/nn/multi_head_attention.h"
#include "heed/nn/transformer.h"

namespace heed::nn {

// d2l 1.0.3 and 0.17.6 set masked scores to -1e6: a query without keys sees all of them alike.
EmptyRow EmptyRowOf(const GoldenCase& golden);

// An attention layer of d2l, of a framework or of a model of Hugging Face, which keeps its weights.
MultiHeadAttention AttentionOf(const GoldenCase& golden);
TransformerEncoderBlockOptions BlockOptionsOf(const GoldenCase& golden);

// Whatever layer the case has, in the type of its parameters; null where heed has none for it.
std::shared_ptr<torch::nn::Module> ModuleOf(const GoldenCase& golden);

// Whose names the case's parameters have.
Layers LayersOf(const GoldenCase& golden);
// The parameters as the framework's checkpoints have them. Hugging Face's cases of BERT are the inner half of its attention
// layer, which stands below "self"; the outer half is then the identity.
TensorMap CheckpointOf(const GoldenCase& golden);

// Gradients of sum(output * G), those of the parameters under the framework's names and in its layouts.
void ExpectGradients(const GoldenCase& golden, torch::nn::Module& module, const at::Tensor& output,
                     const std::vector<std::pair<std::string, at::Tensor>>& inputs);

}  // namespace heed::nn

#endif  // HEED_TESTS_NN_GOLDEN_MODULES_H_
