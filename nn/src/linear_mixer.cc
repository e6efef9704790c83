// torch.ops.heed.linear_mixer_*: linear attention and, given beta, the gated delta rule, with their derivatives.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/library.h>

#include "executor.h"
#include "heed/gated_delta.h"
#include "heed/linear_attention.h"
#include "heed/nn/linear_attention.h"
#include "heed/thread_workspace.h"
#include "operator_arguments.h"
#include "operator_node.h"
#include "refuse.h"
#include "tensor_view.h"
#include "translate_errors.h"

namespace heed::nn {
namespace mixer {
namespace {

using c10::IValue;
using c10::OperatorHandle;
using torch::autograd::variable_list;
using torch::jit::Stack;

// The tensors of a call as schemas list them; those before kLengths are differentiable.
enum : std::size_t { kQuery, kKey, kValue, kDecay, kBeta, kInitialState, kLengths, kOffsets, kCount };
constexpr std::size_t kOperands = kLengths;
constexpr std::array<const char*, kCount> kNames{"query", "key",           "value",   "decay",
                                                 "beta",  "initial_state", "lengths", "offsets"};

struct Results {
  at::Tensor output, final_state;
  at::Tensor sums;  // undefined unless normalised
};

at::ArrayRef<at::Tensor> OperandsOf(const variable_list& tensors) {
  return at::ArrayRef<at::Tensor>(tensors).slice(0, kOperands);
}

using Shape = c10::SymDimVector;

bool HasShape(const at::Tensor& tensor, const Shape& shape) { return tensor.sym_sizes() == c10::SymIntArrayRef(shape); }

void CheckShape(std::size_t t, const at::Tensor& tensor, const Shape& shape, const char* meaning) {
  if (!HasShape(tensor, shape))
    Refuse(kNames[t], ": expected ", meaning, " ", c10::SymIntArrayRef(shape), ", got ", ShapeText(tensor));
}

Shape StateShape(const variable_list& in, bool normalise) {
  const at::Tensor &query = in[kQuery], &offsets = in[kOffsets];
  return {offsets.defined() ? offsets.sym_size(0) - 1 : query.sym_size(0), query.sym_size(1), query.sym_size(3),
          in[kValue].sym_size(3) + (normalise ? 1 : 0)};
}

// All that can be told without reading elements.
void Check(const variable_list& in, bool normalise) {
  for (const std::size_t t : {kQuery, kKey, kValue})
    if (in[t].dim() != 4)
      Refuse(kNames[t], ": expected 4 dimensions [batch, heads, steps, width], got shape ", ShapeText(in[t]));
  const at::ScalarType type = in[kQuery].scalar_type();
  if (type != at::kFloat && type != at::kDouble) Refuse("query: expected float32 or float64, got ", type);
  for (std::size_t t = kKey; t < kCount; ++t) {
    const at::ScalarType wanted = t < kOperands ? type : at::kLong;
    if (in[t].defined() && in[t].scalar_type() != wanted)
      Refuse(kNames[t], ": expected ", wanted, t < kOperands ? ", the type of query" : "", ", got ", in[t].scalar_type());
  }
  const at::Tensor& query = in[kQuery];
  const c10::SymInt batch = query.sym_size(0), heads = query.sym_size(1), steps = query.sym_size(2);
  CheckShape(kKey, in[kKey], Shape(query.sym_sizes()), "the shape of query");
  CheckShape(kValue, in[kValue], {batch, heads, steps, in[kValue].sym_size(3)}, "batch, heads and steps of query");
  if (in[kDecay].defined() && !HasShape(in[kDecay], {1, heads, 1}))
    CheckShape(kDecay, in[kDecay], {batch, heads, steps}, "one number a head or [B, H, N]");
  if (in[kBeta].defined()) CheckShape(kBeta, in[kBeta], {batch, heads, steps}, "[B, H, N]");
  if (in[kLengths].defined()) CheckShape(kLengths, in[kLengths], {batch}, "[B]");
  if (in[kOffsets].defined() && (in[kOffsets].dim() != 1 || in[kOffsets].sym_size(0) < 1))
    Refuse("offsets: expected [B + 1], got ", ShapeText(in[kOffsets]));
  if (in[kInitialState].defined())
    CheckShape(kInitialState, in[kInitialState], StateShape(in, normalise), normalise ? "[B, H, D, Dv + 1]" : "[B, H, D, Dv]");
}

Results EmptyResults(const variable_list& in, bool normalise) {
  const at::Tensor &query = in[kQuery], &value = in[kValue];
  return {at::empty_symint(value.sym_sizes(), value.options()), at::empty_symint(StateShape(in, normalise), query.options()),
          normalise ? at::empty_symint(query.sym_sizes().slice(0, 3), query.options()) : at::Tensor()};
}

variable_list EmptyGradients(const variable_list& in, const std::vector<bool>& wanted) {
  variable_list gradients(kOperands);
  for (std::size_t t = 0; t < kOperands; ++t)
    if (wanted[t] && in[t].defined()) gradients[t] = at::empty_symint(in[t].sym_sizes(), in[t].options());
  return gradients;
}

// The engine's arguments; views of `in`, whose lengths are contiguous.
template <class T>
LinearInputs<T> InputsOf(const variable_list& in) {
  return {ViewOf<const T, 4>(in[kQuery]), ViewOf<const T, 4>(in[kKey]),          ViewOf<const T, 4>(in[kValue]),
          ViewOf<const T, 3>(in[kDecay]), ViewOf<const T, 4>(in[kInitialState]), ViewOf<const T, 3>(in[kBeta])};
}
LinearOptions OptionsOf(const variable_list& in, bool normalise) {
  LinearOptions options;
  if (in[kLengths].defined())
    options.lengths = Lengths::PerBatch(ElementsOf<const int64_t>(in[kLengths]).data(), in[kLengths].size(0));
  options.offsets = ViewOf<const int64_t, 1>(in[kOffsets]);
  options.normalise = normalise;
  return options;
}

template <class Run>
void WithType(at::ScalarType type, const Run& run) {
  type == at::kDouble ? run(double{}) : run(float{});
}

// Of dense tensors.
Results Forward(variable_list in, bool normalise) {
  Check(in, normalise);
  if (in[kLengths].defined()) in[kLengths] = in[kLengths].contiguous();
  Results results = EmptyResults(in, normalise);
  WithType(in[kQuery].scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    TorchExecutor executor;
    const LinearOutputs<T> outputs{ViewOf<T, 4>(results.output), ViewOf<T, 4>(results.final_state), ViewOf<T, 3>(results.sums)};
    (in[kBeta].defined() ? GatedDeltaForward<T> : LinearAttentionForward<T>)(OptionsOf(in, normalise), InputsOf<T>(in), outputs,
                                                                             ThreadWorkspace(), executor);
  });
  return results;
}

// d_results: of output and final state; forward: output and sums, where normalised.
variable_list Backward(variable_list d_results, variable_list in, const variable_list& forward, bool normalise,
                       const std::vector<bool>& wanted) {
  if (in[kLengths].defined()) in[kLengths] = in[kLengths].contiguous();
  if (!d_results[0].defined()) d_results[0] = at::zeros({1}, in[kValue].options()).expand(in[kValue].sizes());
  variable_list d = EmptyGradients(in, wanted);
  WithType(in[kQuery].scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    TorchExecutor executor;
    const LinearCotangents<T> cotangents{ViewOf<const T, 4>(d_results[0]), ViewOf<const T, 4>(d_results[1]),
                                         ViewOf<const T, 4>(forward[0]), ViewOf<const T, 3>(forward[1])};
    const LinearGradients<T> gradients{ViewOf<T, 4>(d[kQuery]), ViewOf<T, 4>(d[kKey]),          ViewOf<T, 4>(d[kValue]),
                                       ViewOf<T, 3>(d[kDecay]), ViewOf<T, 4>(d[kInitialState]), ViewOf<T, 3>(d[kBeta])};
    (in[kBeta].defined() ? GatedDeltaBackward<T> : LinearAttentionBackward<T>)(OptionsOf(in, normalise), InputsOf<T>(in),
                                                                               cotangents, gradients, ThreadWorkspace(),
                                                                               executor);
  });
  return d;
}

variable_list Next(Arguments& arguments, std::size_t count) {
  variable_list tensors(count);
  for (at::Tensor& tensor : tensors) tensor = arguments.Tensor();
  return tensors;
}

void Push(Stack* stack, const Results& results) { torch::jit::push(*stack, results.output, results.final_state, results.sums); }

template <bool shape>
void ForwardKernel(const OperatorHandle& op, Stack* stack) {
  Arguments arguments(op, stack, shape ? at::kMeta : at::kCPU);
  const variable_list in = Next(arguments, kCount);
  const bool normalise = arguments.Bool();
  if (shape) Check(in, normalise);
  Push(stack, shape ? EmptyResults(in, normalise) : Forward(in, normalise));
}

template <bool shape>
void BackwardKernel(const OperatorHandle& op, Stack* stack) {
  Arguments arguments(op, stack, shape ? at::kMeta : at::kCPU);
  variable_list d_results = Next(arguments, 2), in = Next(arguments, kCount);
  const variable_list forward = Next(arguments, 2);
  const bool normalise = arguments.Bool();
  std::vector<bool> wanted(kOperands);
  for (std::size_t t = 0; t < kOperands; ++t) wanted[t] = arguments.Bool();
  Check(in, normalise);
  const variable_list d =
      shape ? EmptyGradients(in, wanted) : Backward(std::move(d_results), std::move(in), forward, normalise, wanted);
  for (const at::Tensor& gradient : d) torch::jit::push(*stack, gradient);
}

variable_list Gradients(const variable_list& d_results, const variable_list& saved, const std::vector<bool>& wanted,
                        const std::vector<IValue>& numbers) {
  static const OperatorHandle backward = c10::Dispatcher::singleton().findSchemaOrThrow("heed::linear_mixer_backward", "");
  std::vector<IValue> flags{numbers[0]};
  flags.insert(flags.end(), wanted.begin(), wanted.end());
  return CallOperator(backward, Joined(PartOf(d_results, 0, 2), saved), flags);
}

// compute() gives the results, which become those of a node where autograd asks for one.
template <class Compute>
Results WithNode(const variable_list& tensors, bool normalise, const Compute& compute) {
  RefuseTangents("linear attention", tensors);
  if (!WantsNode(OperandsOf(tensors))) return compute();
  const auto node =
      MakeNode<OperatorNode>("HeedLinearMixerBackward", &Gradients, OperandsOf(tensors), std::vector<IValue>{normalise});
  node->Save(tensors);
  Results results = compute();
  for (const at::Tensor* result : {&results.output, &results.final_state}) torch::autograd::set_history(*result, node);
  node->Save(normalise ? results.output : at::Tensor(), /*outputs=*/true);
  node->Save(results.sums);
  return results;
}

void ForwardWithDerivative(const OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const variable_list tensors = TensorsOnStack(op, *stack, 0, kCount);
  WithNode(tensors, stack->back().toBool(), [&]() -> Results {
    CallBelowAutograd(op, keys, stack);
    const variable_list results = LastTensors(*stack, 3);
    return {results[0], results[1], results[2]};
  });
}

void BackwardOnce(const OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  CallOnce("linear attention", op, keys, stack, TensorsOnStack(op, *stack, 0, 2 + kCount + 2));
}

// A list of arguments, one for each operand.
std::string OfEach(const std::string& prefix, const std::string& suffix) {
  std::string list;
  for (std::size_t t = 0; t < kOperands; ++t) list += c10::str(t == 0 ? "" : ", ", prefix, kNames[t], suffix);
  return list;
}

LinearAttentionResult Mix(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const at::Tensor& beta,
                          const LinearAttentionOptions& options) {
  variable_list in{query, key, value, options.decay, beta, options.initial_state, options.lengths, options.offsets};
  for (std::size_t t = 0; t < kCount; ++t)
    if (t <= kValue || in[t].defined()) in[t] = Dense(kNames[t], in[t]);
  const at::ScalarType type = query.scalar_type();
  const auto narrow = [](at::ScalarType any) { return any == at::kBFloat16 || any == at::kHalf; };
  for (const std::size_t t : {kKey, kValue})
    if (in[t].scalar_type() != type) Refuse(kNames[t], ": expected ", type, ", the type of query, got ", in[t].scalar_type());
  for (std::size_t t = 0; t < kOperands && narrow(type); ++t)
    if (in[t].defined() && narrow(in[t].scalar_type())) in[t] = in[t].to(at::kFloat);
  Results results = WithNode(in, options.normalise, [&] {
    const at::NoGradGuard no_grad;
    return Forward(in, options.normalise);
  });
  return {results.output.to(type), results.final_state};
}

}  // namespace
}  // namespace mixer

LinearAttentionResult linear_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                       const LinearAttentionOptions& options) {
  return mixer::Mix(query, key, value, {}, options);
}

LinearAttentionResult gated_delta_rule(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                       const at::Tensor& beta, const LinearAttentionOptions& options) {
  if (!beta.defined()) Refuse("beta: the gated delta rule needs it, [B, H, N]");
  return mixer::Mix(query, key, value, beta, options);
}

TORCH_LIBRARY_FRAGMENT(heed, m) {
  // Tensors are positional: PyTorch attaches derivatives to positional arguments alone. Sums are undefined, None in Python,
  // unless normalised; the backward pass then wants them and the output.
  const std::string tensors =
      "Tensor query, Tensor key, Tensor value, Tensor? decay=None, Tensor? beta=None, Tensor? initial_state=None, "
      "Tensor? lengths=None, Tensor? offsets=None, ";
  m.def(("linear_mixer_forward(" + tensors + "*, bool normalise=False) -> (Tensor output, Tensor final_state, Tensor sums)")
            .c_str());
  m.def(("linear_mixer_backward(Tensor? d_output, Tensor? d_final_state, " + tensors +
         "Tensor? output=None, Tensor? sums=None, *, bool normalise=False, " + mixer::OfEach("bool want_", "=True") + ") -> (" +
         mixer::OfEach("Tensor d_", "") + ")")
            .c_str());
}

TORCH_LIBRARY_IMPL(heed, CPU, m) {
  m.impl("linear_mixer_forward", BoxedKernel<&mixer::ForwardKernel<false>>());
  m.impl("linear_mixer_backward", BoxedKernel<&mixer::BackwardKernel<false>>());
}

TORCH_LIBRARY_IMPL(heed, Meta, m) {
  m.impl("linear_mixer_forward", BoxedKernel<&mixer::ForwardKernel<true>>());
  m.impl("linear_mixer_backward", BoxedKernel<&mixer::BackwardKernel<true>>());
}

TORCH_LIBRARY_IMPL(heed, Autograd, m) {
  m.impl("linear_mixer_forward", BoxedKernel<&mixer::ForwardWithDerivative>());
  m.impl("linear_mixer_backward", BoxedKernel<&mixer::BackwardOnce>());
}

}  // namespace heed::nn
