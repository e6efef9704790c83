#include "lab/training/sequence_parallel.h"

#include <ATen/ATen.h>
#include <fmt/core.h>

#include "heed/error.h"
#include "heed/nn/position_choice.h"
#include "heed/nn/sequence_part.h"
#include "lab/training/rank_group.h"

namespace heed::lab {

using nn::distributed::Layout;
using nn::distributed::SequencePart;

void RequireShared(const ModelOptions& model, int64_t sequence_ranks) {
  if (sequence_ranks == 1) return;
  if (model.encoder != "attention" && model.encoder != "decomposable") {
    const bool convolves = model.encoder == "convolution" || model.encoder == "dilated";
    throw InvalidArgument(
        fmt::format("encoder: '{}' computes a step of {}, which another rank may have; --sequence-ranks needs "
                    "attention or decomposable",
                    model.encoder, convolves ? "those beside it" : "the state behind the one before"));
  }
  const bool cope = nn::ParsePositionScheme(model.position) == nn::PositionScheme::kCope;
  if (cope && model.heads % sequence_ranks != 0) {
    throw InvalidArgument(
        fmt::format("position: cope counts keys of all ranks, so that each computes whole heads; {} heads do "
                    "not go into {} ranks (sequence_ranks)",
                    model.heads, sequence_ranks));
  }
}

void WithTokens(Ranks& ranks, const Batch& batch, Objective objective, const std::string& what,
                const std::function<void(const Batch&)>& compute) {
  if (ranks.sequence_ranks() == 1) return compute(batch);
  const int64_t steps = batch.inputs.size(1);
  const bool zigzag = objective == Objective::kCausal && steps % (int64_t{2} * ranks.sequence_ranks()) == 0;
  ranks.Await(what, [&] {
    const SequencePart part(ranks.group().sequence, steps, {.layout = zigzag ? Layout::kZigzag : Layout::kContiguous});
    compute(TokensOf(batch, part));
  });
}

Batch TokensOf(const Batch& batch, const SequencePart& part) {
  const int64_t windows = batch.inputs.size(0), steps = batch.inputs.size(1);
  Batch own{part.of(batch.inputs, 1), {}, {}};
  if (!batch.rows.defined()) {
    own.targets = part.of(batch.targets.view({windows, steps}), 1).flatten();
    return own;
  }
  const at::Tensor tokens = part.tokens(), here = at::full({steps}, -1, at::kLong);
  here.index_put_({tokens}, at::arange(tokens.size(0)));
  const at::Tensor token = here.index_select(0, batch.rows.remainder(steps)), kept = token.ge(0);
  const at::Tensor window = batch.rows.div(steps, "floor");
  own.rows = (window * tokens.size(0) + token).masked_select(kept);
  own.targets = batch.targets.masked_select(kept);
  return own;
}

}  // namespace heed::lab
