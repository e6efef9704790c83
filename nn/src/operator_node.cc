#include "operator_node.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <string>

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/dynamo/compiled_autograd.h>

namespace heed::nn {

using c10::IValue;
using torch::autograd::variable_list;

namespace {

torch::autograd::edge_list EdgesOf(at::ArrayRef<at::Tensor> operands) {
  torch::autograd::edge_list edges;
  for (const at::Tensor& operand : operands)
    if (operand.defined()) edges.push_back(torch::autograd::impl::gradient_edge(operand));
  return edges;
}

}  // namespace

OperatorNode::OperatorNode(const char* name, Backward backward, at::ArrayRef<at::Tensor> operands, std::vector<IValue> numbers,
                           bool joint)
    : Node(EdgesOf(operands)), name_(name), operands_(operands.size()), call_{backward, joint, {}, std::move(numbers), {}} {
  for (std::size_t t = 0; t < operands.size(); ++t)
    if (operands[t].defined()) call_.operands.push_back(t);
  saved_.reserve(call_.operands.size() + 4);  // of attention also output, lse, remainder and correction
}

void OperatorNode::Save(at::ArrayRef<at::Tensor> tensors, bool outputs) {
  for (const at::Tensor& tensor : tensors) {
    call_.present.push_back(tensor.defined());
    if (tensor.defined()) saved_.emplace_back(tensor, outputs);
  }
}

variable_list OperatorNode::Call::Gradients(const variable_list& d_results, const variable_list& saved,
                                            const std::vector<bool>& wanted) const {
  variable_list gradients(operands.size());
  const auto defined = [](const at::Tensor& d) { return d.defined(); };
  if (!joint && std::none_of(d_results.begin(), d_results.end(), defined)) return gradients;
  variable_list tensors(present.size());
  auto next = saved.begin();
  for (std::size_t t = 0; t < tensors.size(); ++t)
    if (present[t]) tensors[t] = *next++;
  const variable_list d = backward(d_results, tensors, wanted, numbers);
  for (std::size_t e = 0; e < gradients.size(); ++e)
    if (wanted[operands[e]]) gradients[e] = d[operands[e]];
  return gradients;
}

std::vector<bool> OperatorNode::Wanted() const {
  std::vector<bool> wanted(operands_);
  for (std::size_t e = 0; e < call_.operands.size(); ++e) wanted[call_.operands[e]] = task_should_compute_output(e);
  return wanted;
}

variable_list OperatorNode::Unpacked() {
  variable_list saved;
  saved.reserve(saved_.size());
  for (const torch::autograd::SavedVariable& variable : saved_) saved.push_back(variable.unpack(getptr()));
  return saved;
}

variable_list OperatorNode::apply(variable_list&& d_results) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return call_.Gradients(d_results, Unpacked(), Wanted());
}

void OperatorNode::release_variables() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (torch::autograd::SavedVariable& variable : saved_) variable.reset_data();
}

void OperatorNode::compiled_args(torch::dynamo::autograd::CompiledNodeArgs& args) const {
  args.collect(name());
  for (const bool present : call_.present) args.collect(present);
  args.collect(saved_, /*is_output=*/true);  // as they are unpacked
  for (const IValue& number : call_.numbers) args.collect(number, /*nested=*/true);
}

variable_list OperatorNode::apply_with_saved(const variable_list& d_results,
                                             torch::dynamo::autograd::SwapSavedVariables& swap) {
  namespace compiled = torch::dynamo::autograd;
  swap.before(saved_);
  std::vector<IValue> saved;
  for (at::Tensor& tensor : Unpacked()) saved.emplace_back(std::move(tensor));
  const std::vector<at::TypePtr> schema(saved.size(), at::TensorType::get());
  const auto& compiler = compiled::getPyCompilerInterface();
  const auto gradients = [call = call_, wanted = Wanted()](const variable_list& d, const std::vector<IValue>& arguments) {
    variable_list tensors;
    for (const IValue& argument : arguments) tensors.push_back(argument.toTensor());
    return call.Gradients(d, tensors, wanted);
  };
  const std::string bound = compiler->bind_function(swap.get_py_compiler(), name(), gradients, schema,
                                                    /*is_custom_function=*/true, /*is_traceable=*/true);
  const IValue edges = compiled::IValuePacker<std::vector<std::optional<torch::autograd::InputMetadata>>>::pack(
      compiled::get_input_metadata(next_edges()));
  variable_list result = compiler->call_function(swap.get_py_compiler(), "apply_functional", bound, d_results, saved, edges);
  swap.after(saved_);
  return result;
}

bool WantsNode(at::ArrayRef<at::Tensor> operands) {
  return at::GradMode::is_enabled() && std::any_of(operands.begin(), operands.end(), [](const at::Tensor& operand) {
           return operand.defined() && operand.requires_grad();
         });
}

variable_list TensorsOnStack(const c10::OperatorHandle& op, const torch::jit::Stack& stack, std::size_t first,
                             std::size_t count) {
  variable_list tensors(count);
  auto argument = stack.end() - static_cast<std::ptrdiff_t>(op.schema().arguments().size() - first);
  for (at::Tensor& tensor : tensors)
    if (const IValue& value = *argument++; value.isTensor()) tensor = value.toTensor();
  return tensors;
}

bool HasTangent(at::ArrayRef<at::Tensor> tensors) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const at::Tensor& tensor) { return tensor.defined() && tensor._fw_grad(/*level=*/0).defined(); });
}

void RefuseTangents(const char* what, at::ArrayRef<at::Tensor> tensors) {
  TORCH_CHECK_NOT_IMPLEMENTED(!HasTangent(tensors), what, ": forward-mode differentiation is not implemented");
}

bool ArePlain(at::ArrayRef<at::Tensor> tensors) {
  using c10::DispatchKey;
  constexpr c10::DispatchKeySet kPlain(
      {DispatchKey::CPU, DispatchKey::BackendSelect, DispatchKey::AutogradCPU, DispatchKey::ADInplaceOrView});
  const c10::impl::LocalDispatchKeySet local = c10::impl::tls_local_dispatch_key_set();
  c10::DispatchKeySet keys = local.included_;
  for (const at::Tensor& tensor : tensors)
    if (tensor.defined()) keys = keys | tensor.key_set();
  // Of raw bits: the difference of two sets keeps the backends of the first.
  return ((keys - local.excluded_).raw_repr() & ~kPlain.raw_repr()) == 0 && !HasTangent(tensors);
}

void CallBelowAutograd(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const at::AutoDispatchBelowADInplaceOrView below;
  op.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
}

variable_list LastTensors(const torch::jit::Stack& stack, std::size_t count) {
  variable_list tensors(count);
  for (std::size_t t = 0; t < count; ++t)
    if (const IValue& value = torch::jit::peek(stack, t, count); value.isTensor()) tensors[t] = value.toTensor();
  return tensors;
}

variable_list CallOperator(const c10::OperatorHandle& op, const variable_list& tensors, const std::vector<IValue>& numbers,
                           const std::vector<bool>* wanted) {
  torch::jit::Stack stack;
  stack.reserve(op.schema().arguments().size());
  for (const at::Tensor& tensor : tensors) stack.push_back(OptionalValue(tensor));
  stack.insert(stack.end(), numbers.begin(), numbers.end());
  if (wanted) {
    c10::List<bool> each;
    for (const bool one : *wanted) each.push_back(one);
    stack.emplace_back(std::move(each));
  }
  op.callBoxed(&stack);
  return LastTensors(stack, stack.size());
}

variable_list PartOf(const variable_list& tensors, std::size_t first, std::size_t count) {
  const auto from = tensors.begin() + static_cast<std::ptrdiff_t>(first);
  return {from, from + static_cast<std::ptrdiff_t>(count)};
}

variable_list Once(const char* what, at::ArrayRef<at::Tensor> tensors, const std::function<variable_list()>& compute,
                   const char* refusal) {
  RefuseTangents(what, tensors);
  if (!WantsNode(tensors)) return compute();
  variable_list wanting;
  for (const at::Tensor& tensor : tensors)
    if (tensor.defined() && tensor.requires_grad()) wanting.push_back(tensor);
  const auto node =
      MakeNode<torch::autograd::Error>(c10::str(what, ": ", refusal), torch::autograd::collect_next_edges(wanting));
  variable_list results;
  {
    const at::NoGradGuard no_grad;
    results = compute();
  }
  for (const at::Tensor& result : results)
    if (result.defined()) torch::autograd::set_history(result, node);
  return results;
}

void CallOnce(const char* what, const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack,
              at::ArrayRef<at::Tensor> tensors, const char* refusal) {
  const auto call = [&] {
    CallBelowAutograd(op, keys, stack);
    return LastTensors(*stack, op.schema().returns().size());
  };
  Once(what, tensors, call, refusal);
}

}  // namespace heed::nn
