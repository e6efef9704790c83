// From tensors to the engine and back, without autograd but for the last two functions.
#ifndef HEED_NN_SRC_ATTENTION_CALL_H_
#define HEED_NN_SRC_ATTENTION_CALL_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "heed/element.h"
#include "heed/nn/attention.h"
#include "tensor_view.h"

namespace heed::nn {

// Throws InvalidArgument unless the three have four dimensions [B, H, N, D] and one floating type. Of dense tensors, and of
// meta tensors.
void CheckAttentionInputs(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value);

// Throws InvalidArgument unless gradients (where defined) and what the forward pass returned have the types it returned.
void CheckSavedTensors(const at::Tensor& d_output, const at::Tensor& d_lse, const at::Tensor& query, const at::Tensor& output,
                       const at::Tensor& lse);

// Throws InvalidArgument unless there is no gradient of statistics, or all have the types that the forward pass returned.
void CheckSavedStatistics(const at::Tensor& d_statistics, const at::Tensor& statistics, const at::Tensor& largest_key,
                          const at::Tensor& lse);

// A remainder as the operators hand it on, undefined where it is undefined or empty [0]. Throws InvalidArgument unless it is
// bfloat16 with four dimensions.
at::Tensor PresentRemainder(const at::Tensor& remainder);

// A correction likewise: undefined, or in the type of lse with three dimensions.
at::Tensor PresentCorrection(const at::Tensor& correction, const at::Tensor& lse);

// Chosen heads or rows, dense. Throws InvalidArgument unless undefined or int64 [n]. The engine checks the range.
at::Tensor DenseIndices(const char* name, const at::Tensor& indices);

// float64 for float64, float32 for the rest: the type of lse, statistics and tables.
at::ScalarType AccumulatorType(at::ScalarType type);

// Tensors as the engine takes them: dense, tables in the accumulator's type, arrays over pairs with four dimensions, position
// lists with two. Differentiable. Throws InvalidArgument where a tensor cannot be what its name says.
AttentionTensors Resolved(const AttentionTensors& tensors, const at::Tensor& query);

// The same without the checks of what is added to scores and values, for which there must be a query.
AttentionTensors ResolvedPlaces(const AttentionTensors& tensors);

// Uninitialised output [B, Hq, Nq, Dv]. When query keeps its heads inside the steps, as a projection's output does, so does
// the result: what follows then needs no copy either. Works on meta tensors.
at::Tensor EmptyOutput(const at::Tensor& query, const at::Tensor& value, at::ScalarType type);

// What a forward pass keeps beside its output: nothing, the log-sum-exp, and what rounding took, for a backward pass.
enum class Kept { kNothing, kLse, kExact };

struct ForwardResult {
  at::Tensor output, lse;
  at::Tensor statistics;  // [3, B, Hq, Nq], undefined unless asked for
  // What rounding took, undefined unless wanted: of 16-bit outputs, bfloat16 [B, Hq, Nq, Dv]; of lse, a factor [B, Hq, Nq].
  at::Tensor remainder, correction;
  at::Tensor largest_key;  // int64 [B, Hq, Nq], beside statistics whose gradients are wanted
};
// Options carry a seed where dropout is not 0, and resolved tensors. What is not kept is undefined.
ForwardResult AttentionForward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                               const AttentionOptions& options, Kept kept);
// The same of tensors as they were given, not resolved yet.
ForwardResult ResultsOf(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, AttentionOptions options,
                        Kept kept);

// Throws the InvalidArgument that AttentionForward would throw for options, and for tensors of these shapes: their elements are
// not read. Options as AttentionForward takes them.
void CheckCall(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const AttentionOptions& options);

// What a call can be differentiated in, or the gradients of it: undefined where absent, or not wanted.
struct Operands {
  at::Tensor query, key, value;
  AttentionTensors tensors;

  static constexpr std::array kOwnNames{"query", "key", "value"};
  static constexpr std::size_t kCount = kOwnNames.size() + AttentionTensors::kDifferentiable;
  // Of all, in one order: the three, then the differentiable tensors.
  static constexpr const char* Name(std::size_t index) {
    return index < kOwnNames.size() ? kOwnNames[index] : AttentionTensors::kNames[index - kOwnNames.size()];
  }
  static constexpr std::size_t Index(std::string_view name) {
    std::size_t index = 0;
    while (Name(index) != name) ++index;
    return index;
  }
  std::array<at::Tensor*, kCount> All() {
    std::array<at::Tensor*, kCount> all{&query, &key, &value};
    std::copy_n(tensors.All().begin(), AttentionTensors::kDifferentiable, all.begin() + kOwnNames.size());
    return all;
  }
};
// All of them in that order, and back.
std::vector<at::Tensor> ListOf(Operands operands);
Operands OperandsIn(at::ArrayRef<at::Tensor> list);
using Wanted = std::array<bool, Operands::kCount>;
// Uninitialised gradients of what is wanted and present, of tables in `table_type` or their own. Works on meta tensors.
Operands EmptyGradients(Operands given, const Wanted& wanted, std::optional<at::ScalarType> table_type = {});

// What the forward pass took and gave; remainder and correction undefined where they were not wanted: gradients then inherit
// the rounding of a 16-bit output and of the log-sum-exp. statistics, largest_key: where statistics have gradients.
struct SavedCall {
  at::Tensor query, key, value, output, lse, remainder{}, correction{}, statistics{}, largest_key{};
};
// Gradients of the results; an undefined one counts as zeros.
struct ResultGradients {
  at::Tensor output, lse, statistics{};
};
// Options carry tensors as they were given, not resolved yet; each gradient has the shape and type of what it belongs to.
Operands GradientsOf(const ResultGradients& d_results, const SavedCall& saved, AttentionOptions options, const Wanted& wanted);

// The tensors of a call in schemas: query, key and value, the options' tensors, the seed.
inline constexpr std::size_t kOptionTensors = AttentionTensors::kCount + 1, kCallTensors = 3 + kOptionTensors;
inline constexpr std::size_t kDecayTensor = Operands::Index("column_decay");

// The operands that may have tangents, as indices of Operands, and their tangents in the same order.
inline constexpr std::array kTangentOperands{
    Operands::Index("query"),         Operands::Index("key"),    Operands::Index("value"),       Operands::Index("bias"),
    Operands::Index("relative_bias"), Operands::Index("slopes"), Operands::Index("score_reals"), Operands::Index("sinks")};
inline constexpr std::size_t kTangents = kTangentOperands.size();
constexpr bool MayHaveTangent(std::size_t operand) {
  return std::find(kTangentOperands.begin(), kTangentOperands.end(), operand) != kTangentOperands.end();
}
// The first of them take part in second derivatives, and stand first among the operands too.
inline constexpr std::size_t kTwice = Operands::Index("slopes") + 1;
static_assert(kTangentOperands[kTwice - 1] == kTwice - 1);
using OperandTangents = std::array<at::Tensor, kTangents>;
struct TangentResult {
  at::Tensor output, lse, t_output, t_lse;
};
// Throws InvalidArgument where a tangent has not the shape and type of its operand. Works on meta tensors.
void CheckTangents(Operands operands, const OperandTangents& tangents);
// Uninitialised results of AttentionTangent. Works on meta tensors.
TangentResult EmptyTangents(const at::Tensor& query, const at::Tensor& value);
// Forward mode: the results of AttentionForward and their tangents. Tables, and tangents of tables, come as they were given,
// and tangents have been checked; an undefined tangent counts as zeros.
TangentResult AttentionTangent(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                               AttentionOptions options, const OperandTangents& tangents);

// Tangents of what a backward pass has by rows; an undefined one counts as zeros.
struct RowTangentTensors {
  at::Tensor output, lse, d_output, d_lse;
};
// The tangents of the gradients that GradientsOf returns, of the first kTwice operands that are wanted. Tangents are those
// of AttentionTangent, of these operands alone, and rows.output and rows.lse what it returned for them.
Operands AttentionBackwardTangent(const ResultGradients& d_results, const SavedCall& saved, AttentionOptions options,
                                  const OperandTangents& tangents, const RowTangentTensors& rows, const Wanted& wanted);

// The weights before dropout of chosen heads and rows (int64; undefined: all), [B, heads, rows, Nk], from the log-sum-exp of
// the forward pass.
at::Tensor AttentionWeights(const at::Tensor& query, const at::Tensor& key, const at::Tensor& lse,
                            const AttentionOptions& options, const at::Tensor& heads, const at::Tensor& rows);

// The engine's options from resolved tensors; A is the accumulator.
template <class A>
Attention EngineOptions(const AttentionOptions& options);

// Calls run(T{}) with the engine's type for the elements of a tensor.
template <class Run>
void WithElementType(at::ScalarType type, const Run& run) {
  switch (type) {
    case at::kDouble:
      return run(double{});
    case at::kBFloat16:
      return run(BFloat16{});
    case at::kHalf:
      return run(Float16{});
    default:
      return run(float{});
  }
}

// A seed from PyTorch's default generator.
int64_t DrawSeed();

// The batch offset, with this thread's FirstBatchRow on top of it.
int64_t FirstRowOfDropout(const AttentionOptions& options);

// AttentionForward, with a derivative in its three tensors and the differentiable ones among the options where autograd asks
// for one: what torch.ops.heed.attention_forward does of tensors that nothing intercepts. Tangents of forward mode pass, and
// second derivatives. Options carry a seed where dropout is not 0, and resolved tensors.
ForwardResult DifferentiableAttention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                      const AttentionOptions& options);

// The same through the dispatcher, where whatever intercepts tensors sees it.
ForwardResult CallForward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                          const AttentionOptions& options);

}  // namespace heed::nn

#endif  // HEED_NN_SRC_ATTENTION_CALL_H_
