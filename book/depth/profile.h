// Measures of hidden states, attention and gradients along a stack.
#ifndef HEED_BOOK_DEPTH_PROFILE_H_
#define HEED_BOOK_DEPTH_PROFILE_H_

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>
#include <nlohmann/json.hpp>

#include "book/depth/stack.h"
#include "lab/data/batches.h"

namespace heed::lab {

// Of the states X [steps, width] behind one layer; means over the windows of a batch, gradients over the batch as a whole.
struct LayerProfile {
  // How far the rows are from being all alike: |X - 1 x^T| / |X| in the Frobenius norm, where the mean row x is nearest. 1
  // where the rows share nothing, 0 where every token has the same state. Dong et al. 2021, "Attention is not all you need:
  // pure attention loses rank doubly exponentially with depth", section 2, who take a composite of the 1- and infinity-norm.
  double distance_to_equal_rows = 0;
  // To the nearest matrix of rank one: sqrt(1 - s_1^2 / sum s_i^2) of the singular values s. Never above the former.
  double distance_to_rank_one = 0;
  double size = 0;                // root of the mean square of an entry
  double state_gradient = 0;      // |d loss / d X|
  double parameter_gradient = 0;  // |d loss / d parameters of the layer|; 0 for the input
  double query_key_gradient = 0;  // the same of W_q and W_k alone
  // By head, means over the queries. Entropy as a share of that of even weights over the keys that a query sees.
  std::vector<double> entropy, largest_weight;  // empty for the input
};

// The input of the first layer, then one entry a layer.
struct StackProfile {
  double loss = 0;
  std::vector<LayerProfile> layers;
};

// One forward and backward pass in double precision; attention's statistics come from the engine, which stores no matrix of
// weights. The model keeps its parameters and its type. Throws Interruption on Ctrl-C.
StackProfile Profile(StackModel& model, const Batch& batch);

// |X - 1 x^T| / |X| and the distance to rank one of X [windows, steps, width], each the mean over the windows. 0 where X is 0.
double DistanceToEqualRows(const at::Tensor& X);
double DistanceToRankOne(const at::Tensor& X);

// Null in JSON, and what is not finite, is NaN: a number of states that left the finite numbers.
double NumberFromJson(const nlohmann::ordered_json& json);

// Numbers survive the way to JSON and back bit by bit. The second throws nlohmann::json::exception or InvalidArgument when the
// JSON does not hold a profile of so many layers and heads.
nlohmann::ordered_json ToJson(const StackProfile& profile);
StackProfile ProfileFromJson(const nlohmann::ordered_json& json, int64_t layers, int64_t heads);

}  // namespace heed::lab

#endif  // HEED_BOOK_DEPTH_PROFILE_H_
