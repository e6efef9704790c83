// Operators in the graph of derivatives. A backward pass calls an operator through the dispatcher: eager calls, torch.compile,
// torch.func, modes, checkpoints, batched gradients and compiled autograd meet the same code.
#ifndef HEED_NN_SRC_OPERATOR_NODE_H_
#define HEED_NN_SRC_OPERATOR_NODE_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>

namespace heed::nn {

// It is no torch::autograd::Function, whose bookkeeping of arguments and results takes as long as attention of one query over a
// hundred keys, and which torch.func refuses.
class OperatorNode final : public torch::autograd::Node {
 public:
  using Tensors = torch::autograd::variable_list;
  // The gradient of each operand, undefined where none is wanted; of gradients of results at least one is defined.
  using Backward = Tensors (*)(const Tensors& d_results, const Tensors& saved, const std::vector<bool>& wanted,
                               const std::vector<c10::IValue>& numbers);

  // An edge for each operand that is defined. numbers: the operator's arguments that are no tensors. joint: other processes
  // compute with it, so that Backward is called even where no result has a gradient.
  OperatorNode(const char* name, Backward backward, at::ArrayRef<at::Tensor> operands, std::vector<c10::IValue> numbers,
               bool joint = false);

  // What Backward gets, in order. Tensors are saved as variables are: a change in place before the backward pass is noticed.
  // Of outputs, only those that are this node's already.
  void Save(at::ArrayRef<at::Tensor> tensors, bool outputs = false);

  std::string name() const override { return name_; }
  Tensors apply(Tensors&& d_results) override;
  void release_variables() override;
  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs& args) const override;
  Tensors apply_with_saved(const Tensors& d_results, torch::dynamo::autograd::SwapSavedVariables& swap) override;

 private:
  // All of a backward pass but the tensors.
  struct Call {
    Backward backward;
    bool joint;
    std::vector<std::size_t> operands;  // by edge
    std::vector<c10::IValue> numbers;
    std::vector<bool> present;  // of the tensors to save, those that were defined

    Tensors Gradients(const Tensors& d_results, const Tensors& saved, const std::vector<bool>& wanted) const;
  };
  std::vector<bool> Wanted() const;  // by operand
  Tensors Unpacked();

  const char* name_;
  std::size_t operands_;
  Call call_;
  std::vector<torch::autograd::SavedVariable> saved_;
};

// LibTorch counts references of nodes in one way or in another, depending on its version.
using NodePointer = std::remove_cvref_t<decltype(std::declval<at::Tensor>().grad_fn())>;

template <class Made, class... Arguments>
auto MakeNode(Arguments&&... arguments) {
  using torch::autograd::Node;
  if constexpr (std::is_same_v<NodePointer, std::shared_ptr<Node>>) {
    return std::shared_ptr<Made>(new Made(std::forward<Arguments>(arguments)...), [](Made* node) { deleteNode(node); });
  } else {
    return c10::make_intrusive<Made>(std::forward<Arguments>(arguments)...);
  }
}

// Whether autograd asks for a node of a call with these operands.
bool WantsNode(at::ArrayRef<at::Tensor> operands);

// Arguments of a boxed call from `first` on; undefined where absent.
torch::autograd::variable_list TensorsOnStack(const c10::OperatorHandle& op, const torch::jit::Stack& stack, std::size_t first,
                                              std::size_t count);

// Whether one of the tensors carries a tangent of forward-mode differentiation; throws NotImplementedError then.
bool HasTangent(at::ArrayRef<at::Tensor> tensors);
void RefuseTangents(const char* what, at::ArrayRef<at::Tensor> tensors);

// Whether nothing but gradients stands between these tensors and their memory: no transform, trace, mode, autocast, lazy sign
// or tangent.
bool ArePlain(at::ArrayRef<at::Tensor> tensors);

// The kernel below autograd.
void CallBelowAutograd(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

// What a boxed call takes for a tensor, None where it is undefined; and the last `count` things on a stack, undefined where
// None.
inline c10::IValue OptionalValue(const at::Tensor& tensor) { return tensor.defined() ? c10::IValue(tensor) : c10::IValue(); }
torch::autograd::variable_list LastTensors(const torch::jit::Stack& stack, std::size_t count);

// Calls an operator through the dispatcher, where whoever follows sees it. wanted: its last argument, where it has one.
torch::autograd::variable_list CallOperator(const c10::OperatorHandle& op, const torch::autograd::variable_list& tensors,
                                            const std::vector<c10::IValue>& numbers, const std::vector<bool>* wanted = nullptr);

// Lists of tensors in one, and a part of a list.
template <class... Lists>
torch::autograd::variable_list Joined(const Lists&... lists) {
  torch::autograd::variable_list all;
  (all.insert(all.end(), lists.begin(), lists.end()), ...);
  return all;
}
torch::autograd::variable_list PartOf(const torch::autograd::variable_list& tensors, std::size_t first, std::size_t count);

// What compute() returns of the tensors, without a derivative. Whoever differentiates it gets an error that says so in the name
// of `what`, with the words of `refusal`.
inline constexpr const char* kOnlyFirst = "a second derivative was asked for; only first derivatives are implemented";
torch::autograd::variable_list Once(const char* what, at::ArrayRef<at::Tensor> tensors,
                                    const std::function<torch::autograd::variable_list()>& compute,
                                    const char* refusal = kOnlyFirst);
// The same of an operator's kernel below autograd.
void CallOnce(const char* what, const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack,
              at::ArrayRef<at::Tensor> tensors, const char* refusal = kOnlyFirst);

// Something of any type among the numbers of a node or of a torch::autograd::Function.
template <class T>
struct Holder : torch::CustomClassHolder {
  explicit Holder(std::shared_ptr<const T> value) : held(std::move(value)) {}
  std::shared_ptr<const T> held;
};
template <class T>
c10::IValue Held(std::shared_ptr<const T> value) {
  return c10::IValue::make_capsule(c10::make_intrusive<Holder<T>>(std::move(value)));
}
template <class T>
std::shared_ptr<const T> HeldIn(const c10::IValue& value) {
  return c10::static_intrusive_pointer_cast<Holder<T>>(value.toCapsule())->held;
}

}  // namespace heed::nn

#endif  // HEED_NN_SRC_OPERATOR_NODE_H_
