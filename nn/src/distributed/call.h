// A call whose ranks have agreed: what the two methods have in common.
#ifndef HEED_NN_SRC_DISTRIBUTED_CALL_H_
#define HEED_NN_SRC_DISTRIBUTED_CALL_H_

#include <array>
#include <cstdint>
#include <memory>

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/variable.h>

#include "attention_call.h"
#include "distributed/blocks.h"
#include "distributed/dealt_heads.h"
#include "distributed/exchange.h"
#include "distributed/parts.h"

namespace heed::nn::distributed {

struct Call {
  Exchange exchange;
  Parts queries, keys;
  DealtHeads heads;
  Whole whole;
  Wanted needs{};               // what a gradient is wanted of, the same on all ranks
  bool needs_gradient = false;  // whether there will be a backward pass
  bool statistics = false;      // asked for
  bool returns_lse = true;      // whether there may be a gradient of the log-sum-exp

  int rank() const { return exchange.rank(); }
};
using SharedCall = std::shared_ptr<const Call>;

// Gradients by the number of their operand; those of the tables in float64, as far as this rank has found them.
using Gradients = std::array<at::Tensor, Operands::kCount>;

// Zeros in float64 for the tables that need a gradient.
void AddTableSums(const Call& call, Operands& operands, Gradients& d);

// Sums gradients of tables over ranks, in one go, and rounds them.
void SumTables(const Call& call, Operands& operands, Gradients& d);

// Output, log-sum-exp and, where asked for, statistics of this rank's queries, by the ring and by all-to-all; saved: where to
// put what the backward pass needs beside the operands.
AttentionOutput RingForward(const Call& call, const Operands& operands, torch::autograd::variable_list& saved);
AttentionOutput AllToAllForward(const Call& call, const Operands& operands, torch::autograd::variable_list& saved);

// Gradients from those of output and log-sum-exp, of which either may be undefined. By all-to-all, query, key and value are not
// among the operands.
Gradients RingBackward(const Call& call, const torch::autograd::variable_list& d_results,
                       const torch::autograd::variable_list& saved, const Operands& operands);
Gradients AllToAllBackward(const Call& call, const torch::autograd::variable_list& d_results,
                           const torch::autograd::variable_list& saved, const Operands& operands);

// Which method a call takes, and what it sends. operands: this rank's queries, keys and values, and the tables. rotation: how
// many numbers are trained that a rotation of queries and keys depends on. Throws InvalidArgument for a method that cannot be.
Plan PlanOf(const Call& call, Operands operands, int64_t rotation, Method method);

}  // namespace heed::nn::distributed

#endif  // HEED_NN_SRC_DISTRIBUTED_CALL_H_
