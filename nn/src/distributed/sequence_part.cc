#include "heed/nn/sequence_part.h"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "attention_call.h"
#include "distributed/parts.h"
#include "heed/nn/attention_position.h"
#include "heed/nn/dropout.h"
#include "operator_node.h"
#include "refuse.h"
#include "sequence.h"

namespace heed::nn {
namespace distributed {

struct SequencePart::State {
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  Choice choice;
  Parts parts;
  std::vector<HeldPiece> held;

  int rank() const { return group->getRank(); }
  int64_t length() const { return parts.length(rank()); }
};

namespace {

thread_local const SequencePart::State* active_part = nullptr;

Parts PartsOfSteps(int64_t steps, int ranks, Layout layout) {
  if (steps < 0) Refuse("SequencePart: steps: expected 0 or more, got ", steps);
  if (layout == Layout::kZigzag) return Parts::ZigzagOf(steps, ranks);
  std::vector<int64_t> lengths;
  for (int64_t rank = 0; rank < ranks; ++rank) lengths.push_back(steps * (rank + 1) / ranks - steps * rank / ranks);
  return {"x", Layout::kContiguous, std::move(lengths)};
}

// A call's tokens are those of the part.
void RequireOwnSteps(int64_t steps) {
  if (steps != active_part->length()) {
    Refuse("SequencePart: expected the ", active_part->length(), " tokens that rank ", active_part->rank(), " of ",
           active_part->parts.ranks(), " has of ", active_part->parts.total(), ", got ", steps);
  }
}

// The tensor, whose gradient is divided by the number of ranks: attention returns that of all of them, and each hands on its
// share.
at::Tensor Shared(const at::Tensor& x, int64_t ranks) {
  if (!WantsNode(x)) return x;
  at::Tensor shared = x.view_as(x);
  shared.register_hook([ranks](const at::Tensor& gradient) { return gradient.defined() ? gradient / ranks : gradient; });
  return shared;
}

AttentionTensors Shared(AttentionTensors tensors, int64_t ranks) {
  for (at::Tensor* tensor : tensors.All()) *tensor = Shared(*tensor, ranks);
  return tensors;
}

// A scheme whose parameters get this rank's share of their gradients. As it is no module, attention leaves those of a rotation,
// which turns a rank's own tokens, as they are.
class SharedScheme : public AttentionPosition {
 public:
  SharedScheme(std::shared_ptr<const AttentionPosition> scheme, int64_t ranks) : scheme_(std::move(scheme)), ranks_(ranks) {}
  AttentionTensors tensors() const override { return Shared(scheme_->tensors(), ranks_); }
  bool symmetric() const override { return scheme_->symmetric(); }
  std::optional<PositionProgram> program() const override {
    std::optional<PositionProgram> program = scheme_->program();
    if (program) {
      for (at::Tensor& table : program->tables) table = Shared(table, ranks_);
    }
    return program;
  }
  std::optional<double> default_scale(int64_t head_dim) const override { return scheme_->default_scale(head_dim); }
  int64_t axes() const override { return scheme_->axes(); }
  bool places() const override { return scheme_->places(); }
  TokenPositions place(const TokenPositions& positions, int64_t steps) const override {
    return scheme_->place(positions, steps);
  }
  bool turns_once() const override { return scheme_->turns_once(); }
  bool rotates() const override { return scheme_->rotates(); }
  std::pair<at::Tensor, at::Tensor> rotate(const at::Tensor& query, const at::Tensor& key,
                                           const TokenPositions& query_positions,
                                           const TokenPositions& key_positions) const override {
    return scheme_->rotate(query, key, query_positions, key_positions);
  }

 private:
  std::shared_ptr<const AttentionPosition> scheme_;
  int64_t ranks_;
};

}  // namespace

SequencePart::SequencePart(const c10::intrusive_ptr<c10d::ProcessGroup>& group, int64_t steps, Choice choice) {
  if (!group) Refuse("SequencePart: group: expected a process group of LibTorch, got none");
  if (active_part != nullptr) Refuse("SequencePart: this thread already has one");
  Parts parts = PartsOfSteps(steps, group->getSize(), choice.layout);
  std::vector<HeldPiece> held = parts.HeldBy(group->getRank());
  state_ = std::make_unique<const State>(State{group, choice, std::move(parts), std::move(held)});
  active_part = state_.get();
}

SequencePart::~SequencePart() { active_part = nullptr; }

at::Tensor SequencePart::of(const at::Tensor& whole, int64_t dim) const {
  if (whole.size(dim) != state_->parts.total()) {
    Refuse("SequencePart: expected ", state_->parts.total(), " tokens along dimension ", dim, ", got a tensor of shape ",
           whole.sizes());
  }
  return state_->parts.Of(whole, dim, state_->rank());
}

at::Tensor SequencePart::tokens() const { return of(at::arange(state_->parts.total()), 0); }

}  // namespace distributed

AttentionOutput AttentionOverSequence(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                      const AttentionOptions& options) {
  if (distributed::active_part == nullptr) return attention(query, key, value, options);
  const distributed::SequencePart::State& part = *distributed::active_part;
  const int64_t ranks = part.parts.ranks();
  AttentionOptions own = options;
  own.tensors() = distributed::Shared(options.tensors(), ranks);
  if (options.position()) own.position(std::make_shared<const distributed::SharedScheme>(options.position(), ranks));
  return distributed::attention(query, key, value, part.group, own, part.choice);
}

int64_t StepsOfSequence(int64_t steps) {
  if (distributed::active_part == nullptr) return steps;
  distributed::RequireOwnSteps(steps);
  return distributed::active_part->parts.total();
}

at::Tensor TokensOfSequence(int64_t steps, const at::TensorOptions& options) {
  const at::Tensor all = at::arange(StepsOfSequence(steps), options.dtype(at::kLong));
  return distributed::active_part == nullptr ? all
                                             : distributed::active_part->parts.Of(all, 0, distributed::active_part->rank());
}

at::Tensor RowsOfSequence(int64_t steps, const std::function<at::Tensor(int64_t first, int64_t count)>& rows) {
  if (distributed::active_part == nullptr) return rows(0, steps);
  distributed::RequireOwnSteps(steps);
  if (distributed::active_part->held.empty()) return rows(0, 0);
  std::vector<at::Tensor> pieces;
  pieces.reserve(distributed::active_part->held.size());
  for (const distributed::HeldPiece& one : distributed::active_part->held)
    pieces.push_back(rows(one.piece.start, one.piece.length()));
  return at::cat(pieces);
}

std::vector<Run> RunsOfWhole(const at::Tensor& X) {
  const int64_t first_row = first_batch_row();
  if (X.numel() == 0 || X.dim() == 0 || (distributed::active_part == nullptr && first_row == 0)) return {{0, 0, X.numel()}};
  const int64_t rows = X.size(0);
  if (distributed::active_part != nullptr && X.dim() < 2)
    Refuse("SequencePart: expected X [batch, tokens, ..], got shape ", X.sizes());
  const int64_t steps = distributed::active_part != nullptr ? X.size(1) : 1,
                whole_steps = distributed::active_part != nullptr ? StepsOfSequence(steps) : 1;
  const int64_t width = X.numel() / rows / steps;
  int64_t end = 0;
  if (__builtin_mul_overflow(first_row + rows, whole_steps * width, &end)) {
    Refuse("FirstBatchRow: row ", first_row, " is too large for rows of ", whole_steps * width, " elements");
  }
  if (distributed::active_part == nullptr) return {{0, first_row * width, X.numel()}};
  std::vector<Run> runs;
  for (int64_t row = 0; row < rows; ++row) {
    for (const distributed::HeldPiece& one : distributed::active_part->held) {
      runs.push_back({(row * steps + one.at) * width, ((first_row + row) * whole_steps + one.piece.start) * width,
                      one.piece.length() * width});
    }
  }
  return runs;
}

void RefuseSequencePart(const char* who, const char* why) {
  if (distributed::active_part != nullptr) Refuse(who, ": not within a SequencePart: ", why);
}

}  // namespace heed::nn
