// A call whose ranks have agreed: what the two methods have in common.
#ifndef HEED_NN_SRC_DISTRIBUTED_CALL_H_
#define HEED_NN_SRC_DISTRIBUTED_CALL_H_

#include <array>
#include <cstdint>
#include <memory>

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/custom_function.h>

#include "attention_call.h"
#include "distributed/blocks.h"
#include "distributed/exchange.h"
#include "distributed/parts.h"

namespace heed::nn::distributed {

struct Call {
  Exchange exchange;
  Parts queries, keys;
  Whole whole;
  Wanted given{};               // what there is of the operands
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

// The operands again, of which there are those given.
Operands OperandsOf(const Wanted& given, const torch::autograd::variable_list& present);

// Through autograd: the call among what a forward pass saves, the gradients that are wanted as what its backward pass
// computes, and those in the places that its arguments had.
void KeepCall(torch::autograd::AutogradContext* ctx, const SharedCall& call);
SharedCall KeptCall(torch::autograd::AutogradContext* ctx);
torch::autograd::variable_list Wanting(const Gradients& d);
torch::autograd::variable_list InPlaces(const Call& call, const torch::autograd::variable_list& wanted);
[[noreturn]] void RefuseSecondDerivative();

// [output, lse, statistics] of this rank's queries, by the ring and by all-to-all. Statistics are empty [0] where not asked
// for. present: the operands that are there.
torch::autograd::variable_list RingAttention(at::TensorList present, const SharedCall& call);
torch::autograd::variable_list AllToAllAttention(at::TensorList present, const SharedCall& call);

}  // namespace heed::nn::distributed

#endif  // HEED_NN_SRC_DISTRIBUTED_CALL_H_
