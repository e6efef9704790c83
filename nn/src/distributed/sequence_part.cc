#include "heed/nn/sequence_part.h"

#include <memory>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "attention_call.h"
#include "distributed/parts.h"
#include "distributed/prepared_call.h"
#include "heed/nn/dropout.h"
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
  return distributed::AttentionOfShares(query, key, value, part.group, options, part.choice);
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
