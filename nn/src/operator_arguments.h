// The arguments of the operators of attention: how they stand in schemas, and how boxed kernels read them.
#ifndef HEED_NN_SRC_OPERATOR_ARGUMENTS_H_
#define HEED_NN_SRC_OPERATOR_ARGUMENTS_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include "attention_call.h"
#include "heed/nn/attention.h"

namespace heed::nn {

// The options' tensors in a schema, each with a comma behind it. They are positional: PyTorch attaches derivatives to
// positional arguments alone.
std::string OptionTensors();

// The options that are no tensors, those of dropout last, unless the operator has none.
std::string OptionNumbers(bool dropout = true);
// All of them as they stand in a call, of options.
std::vector<c10::IValue> NumbersOf(const AttentionOptions& options);
// And back; a seed that is defined is read.
AttentionOptions OptionsFrom(const std::vector<c10::IValue>& numbers, const at::Tensor& seed);
std::vector<std::pair<std::string, c10::IValue>> NamedNumbers(const AttentionOptions& options);

// Reads the arguments of a boxed call from first to last. All tensors, whatever their name, are made dense, or, where the call
// is about shapes, are on the meta device: the dispatcher picks a kernel by the foremost device among them.
class Arguments {
 public:
  Arguments(const c10::OperatorHandle& op, torch::jit::Stack* stack, at::DeviceType device = at::kCPU);

  at::Tensor Tensor();
  bool Bool() { return Next().toBool(); }
  int64_t Int() { return Next().toInt(); }
  std::string Text() { return std::string(Next().toStringView()); }
  std::vector<int64_t> Ints() { return Next().toIntVector(); }
  std::vector<std::string> Texts() { return Next().to<std::vector<std::string>>(); }
  std::vector<at::Tensor> ListedTensors() { return Next().toTensorVector(); }  // as they were given

  // The arguments of OptionTensors.
  AttentionTensors Tensors();
  Wanted Wants();
  // Those of OptionNumbers. The seed of dropout, which is a tensor of its own, is read on the CPU alone.
  AttentionOptions Options(bool dropout);
  AttentionOptions Options(const at::Tensor& seed);

 private:
  const c10::IValue& Next() { return values_.at(next_++); }

  at::DeviceType device_;
  std::vector<c10::IValue> values_;
  std::size_t next_ = 0;
};

// What operators begin with that compute from a forward pass and gradients of its results, in this order: d_output, d_lse,
// query, key, value, output, lse, remainder, correction, the options' tensors, the seed. All but the options' are checked.
struct BackwardCall {
  ResultGradients d_results;
  SavedCall saved;
  AttentionTensors tensors;
  at::Tensor seed;

  explicit BackwardCall(Arguments& arguments);
  Operands Given() const { return {saved.query, saved.key, saved.value, tensors}; }
};
std::string BackwardTensors();

}  // namespace heed::nn

#endif  // HEED_NN_SRC_OPERATOR_ARGUMENTS_H_
