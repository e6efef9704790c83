// From what a rank was asked for to what all ranks compute.
#ifndef HEED_NN_SRC_DISTRIBUTED_PREPARED_CALL_H_
#define HEED_NN_SRC_DISTRIBUTED_PREPARED_CALL_H_

#include <cstdint>
#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "attention_call.h"
#include "distributed/agreement.h"
#include "distributed/call.h"
#include "heed/nn/distributed.h"
#include "heed/option_names.h"

namespace heed {

template <>
inline constexpr auto kChoices<nn::distributed::Layout> = std::to_array<ChoiceName<nn::distributed::Layout>>(
    {{"contiguous", nn::distributed::Layout::kContiguous}, {"zigzag", nn::distributed::Layout::kZigzag}});
template <>
inline constexpr auto kChoices<nn::distributed::Method> =
    std::to_array<ChoiceName<nn::distributed::Method>>({{"auto", nn::distributed::Method::kAuto},
                                                        {"ring", nn::distributed::Method::kRing},
                                                        {"all_to_all", nn::distributed::Method::kAllToAll}});

}  // namespace heed

namespace heed::nn::distributed {

// This rank's part, operands as a scheme has turned them, and options of the whole without scheme.
struct Request {
  at::Tensor query, key, value;
  AttentionOptions options;
  Choice choice;
  std::vector<int64_t> query_lengths, key_lengths;  // of each rank
  bool returns_lse = true;
  int64_t rotation = 0;  // see PlanOf
  Facts told;            // what else ranks compare: of a scheme what it is
};

struct PreparedCall {
  SharedCall call;
  Operands operands;
  Plan plan;
};

// What this rank will compute, where all ranks will compute the same; as AgreeOn throws, before anything else is sent. What is
// refused here: what heed::nn::attention refuses, lengths that do not fit the layout, and a method that cannot be.
PreparedCall Agreed(const Exchange& exchange, const std::function<Request()>& request);

AttentionOutput Computed(const PreparedCall& prepared);

// zigzag (to: kZigzag) and unzigzag (to: kContiguous), which the exchange has the name of.
at::Tensor Moved(const Exchange& exchange, const at::Tensor& given, int64_t dim, Layout to);

// distributed::attention, of which each rank gets its share of the gradients that are those of the whole sequence.
AttentionOutput AttentionOfShares(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                  const c10::intrusive_ptr<c10d::ProcessGroup>& group, const AttentionOptions& options,
                                  Choice choice);

}  // namespace heed::nn::distributed

#endif  // HEED_NN_SRC_DISTRIBUTED_PREPARED_CALL_H_
