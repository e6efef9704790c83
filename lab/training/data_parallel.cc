#include "lab/training/data_parallel.h"

#include <algorithm>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <fmt/core.h>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "heed/error.h"
#include "heed/nn/dropout.h"
#include "heed/nn/position_choice.h"
#include "heed/nn/sequence_part.h"
#include "lab/training/interrupt.h"
#include "lab/training/ranks.h"

namespace heed::lab {
namespace {

// Small enough that a model of a few MiB has several, large enough that what a message costs beside its bytes is little.
constexpr std::size_t kBucketBytes = std::size_t{1} << 20;

using Buckets = std::vector<std::vector<std::size_t>>;

// In the order in which gradients come, about the reverse of that of the parameters.
Buckets BucketsOf(const std::vector<at::Tensor>& parameters) {
  Buckets buckets = std::get<0>(c10d::compute_bucket_assignment_by_size(parameters, {kBucketBytes}));
  std::ranges::reverse(buckets);
  return buckets;
}

// Its constructor has gained parameters at its end.
template <class Reducer>
std::unique_ptr<Reducer> MakeReducer(const std::vector<at::Tensor>& parameters,
                                     const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  const auto make = [&](const auto&... late) {
    return std::make_unique<Reducer>(parameters, BucketsOf(parameters), group, std::vector<bool>(parameters.size(), false),
                                     /*bucket_bytes_cap=*/static_cast<int64_t>(kBucketBytes),
                                     // What a step does not use then counts as zeros, and buckets are not made anew after
                                     // the first step.
                                     /*find_unused_parameters=*/true, /*gradient_as_bucket_view=*/false,
                                     std::unordered_map<std::size_t, std::string>(),
                                     /*first_bucket_bytes_cap=*/static_cast<int64_t>(kBucketBytes),
                                     /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false, late...);
  };
  using Parameters = std::vector<at::Tensor>;
  using Group = c10::intrusive_ptr<c10d::ProcessGroup>;
  constexpr bool kWithCapList =
      std::is_constructible_v<Reducer, Parameters, Buckets, Group, std::vector<bool>, int64_t, bool, bool,
                              std::unordered_map<std::size_t, std::string>, int64_t, bool, bool, std::vector<int64_t>>;
  if constexpr (kWithCapList) {
    return make(std::vector<int64_t>());
  } else {
    return make();
  }
}

// The reducer warns where all parameters are used, which then need not be looked for.
class Silence : public c10::WarningHandler {
 public:
  void process(const c10::Warning&) override {}
};

void Prepare(c10d::Reducer& reducer, const at::Tensor& loss) {
  Silence silence;
  const c10::WarningUtils::WarningHandlerGuard guard(&silence);
  reducer.prepare_for_backward({loss});
}

}  // namespace

Batch RowsOf(const Batch& batch, int64_t begin, int64_t end) {
  const int64_t windows = batch.inputs.size(0), steps = batch.inputs.size(1), rows = end - begin;
  const int64_t predictions = batch.targets.numel() / windows;
  Batch part{batch.inputs.narrow(0, begin, rows), batch.targets.narrow(0, begin * predictions, rows * predictions), {}};
  if (batch.rows.defined()) part.rows = batch.rows.narrow(0, begin * predictions, rows * predictions) - begin * steps;
  return part;
}

DataParallel::DataParallel(Ranks& ranks, const NamedTensors& parameters, int64_t batch, Objective objective)
    : ranks_(ranks),
      begin_(batch * ranks.row_group() / ranks.row_groups()),
      end_(batch * (ranks.row_group() + 1) / ranks.row_groups()),
      objective_(objective) {
  if (batch < ranks.row_groups()) {
    throw InvalidArgument(
        fmt::format("batch: {} windows a step are fewer than the {} {} that share them; with --sequence-ranks more processes "
                    "share a window",
                    batch, ranks.row_groups(), ranks.sequence_ranks() > 1 ? "groups of processes" : "processes"));
  }
  std::vector<at::Tensor> tensors;
  tensors.reserve(parameters.size());
  for (const auto& [name, parameter] : parameters) tensors.push_back(parameter);
  reducer_ = MakeReducer<c10d::Reducer>(tensors, ranks_.group().group);
}

DataParallel::~DataParallel() = default;

at::Tensor DataParallel::Loss(const Batch& batch, const std::function<at::Tensor(const Batch&)>& loss) const {
  at::Tensor share;
  const nn::FirstBatchRow row(begin_);
  WithTokens(ranks_, RowsOf(batch, begin_, end_), objective_, "the tokens that other ranks have", [&](const Batch& own) {
    share = loss(own) * (static_cast<double>(own.targets.numel()) / static_cast<double>(batch.targets.numel()));
  });
  return share;
}

double DataParallel::Backward(const at::Tensor& loss, int64_t step) {
  const std::string number = std::to_string(step + 1);
  // First of what is sent, it travels beside the backward pass.
  std::vector<at::Tensor> tensors = {at::tensor({loss.item<double>(), Interrupted() ? 1.0 : 0.0}, at::kDouble)};
  c10::intrusive_ptr<c10d::Work> work;
  const auto what = "the gradients of step " + number + " that the other ranks compute";
  ranks_.Await("the losses of step " + number, [&] { work = ranks_.group().group->allreduce(tensors); });
  // The reducer takes the mean over the ranks.
  const at::Tensor scaled = loss * ranks_.size();
  ranks_.Await(what, [&] {
    Prepare(*reducer_, scaled);
    scaled.backward();
    work->wait();
  });
  const double* sums = tensors[0].const_data_ptr<double>();
  interrupted_ = sums[1] > 0.0;
  return sums[0];
}

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
