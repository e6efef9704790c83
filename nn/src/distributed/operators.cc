// torch.ops.heed.distributed_*: what heed.distributed in Python stands on. Groups are told by their names, ranks' token counts
// one after the other; function: what was called, for errors.
#include <algorithm>
#include <cstddef>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <torch/library.h>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>

#include "distributed/agreement.h"
#include "distributed/exchange.h"
#include "distributed/parts.h"
#include "distributed/prepared_call.h"
#include "heed/error.h"
#include "operator_arguments.h"
#include "tensor_view.h"
#include "translate_errors.h"

namespace heed::nn::distributed {
namespace {

using torch::jit::Stack;
using Ints = std::vector<int64_t>;

constexpr std::size_t kTerms = 4;  // numbers of a rank's terms

Exchange ExchangeOf(const std::string& function, const std::string& group) {
  return {function, c10d::resolve_process_group(group)};
}

Layout LayoutOf(const std::string& name) { return ChoiceNamed<Layout>("layout", name); }

Ints AgreeOnTerms(const std::string& group, const std::string& function, const std::string& version, const Ints& terms) {
  if (terms.size() != kTerms) throw InvalidArgument("terms: expected three lengths and a seed");
  const Exchange exchange = ExchangeOf(function, group);
  Statement own{{{terms[0], terms[1], terms[2]}, terms[3]}, Introduction(exchange, version)};
  Ints agreed;
  for (const Terms& of : AgreeOn(exchange, [&] { return own; })) {
    agreed.insert(agreed.end(), of.lengths.begin(), of.lengths.end());
    agreed.push_back(of.seed);
  }
  return agreed;
}

void Tell(const std::string& group, const std::string& function, const std::string& reason) {
  TellRefusal(ExchangeOf(function, group), reason);
}

at::Tensor SumOfRanks(const at::Tensor& numbers, const std::string& group, const std::string& function,
                      const std::string& what) {
  if (numbers.scalar_type() != at::kDouble) throw InvalidArgument("numbers: expected float64");
  return SumOverRanks(ExchangeOf(function, group), Dense("numbers", numbers).contiguous(), what);
}

at::Tensor PartOfRank(const at::Tensor& whole, int64_t dim, int64_t rank, const std::string& layout, const Ints& lengths,
                      const std::string& name) {
  return Parts(name.c_str(), LayoutOf(layout), lengths).Of(whole, dim, static_cast<int>(rank));
}

at::Tensor Move(const at::Tensor& x, int64_t dim, const std::string& group, const std::string& function,
                const std::string& to) {
  return Moved(ExchangeOf(function, group), x, dim, LayoutOf(to));
}

// Arguments of attention, and behind them what stands in kAgreed.
constexpr const char* kAgreed =
    ", bool statistics=False, str group, str function, str method, str layout, int[] query_tokens, int[] key_tokens, bool "
    "returns_lse=True, int rotation=0, str[] told_names, str[] told, str[] tensor_names, Tensor[] tensors)";

Request RequestFrom(Arguments& arguments) {
  Request request;
  for (at::Tensor* operand : {&request.query, &request.key, &request.value}) *operand = arguments.Tensor();
  AttentionTensors tensors = arguments.Tensors();
  const at::Tensor seed = arguments.Tensor();
  request.options = arguments.Options(seed);
  request.options.tensors() = std::move(tensors);
  request.options.return_statistics(arguments.Bool());
  for (int read = 0; read < 2; ++read) arguments.Text();  // group and function
  request.choice.method = ChoiceNamed<Method>("method", arguments.Text());
  request.choice.layout = LayoutOf(arguments.Text());
  request.query_lengths = arguments.Ints();
  request.key_lengths = arguments.Ints();
  request.returns_lse = arguments.Bool();
  request.rotation = arguments.Int();
  const std::vector<std::string> names = arguments.Texts(), told = arguments.Texts(), tensor_names = arguments.Texts();
  const std::vector<at::Tensor> told_tensors = arguments.ListedTensors();
  if (names.size() != told.size() || tensor_names.size() != told_tensors.size()) {
    throw InvalidArgument("told_names, tensor_names: expected one name for each fact and each tensor");
  }
  for (std::size_t n = 0; n < names.size(); ++n) request.told.emplace_back(names[n], told[n]);
  for (std::size_t t = 0; t < tensor_names.size(); ++t) request.told.emplace_back(tensor_names[t], Described(told_tensors[t]));
  return request;
}

PreparedCall PreparedFrom(const c10::OperatorHandle& op, Stack* stack) {
  const std::vector<c10::Argument>& described = op.schema().arguments();
  const auto text = [&](const char* name) {
    const auto place = std::ranges::find(described, name, &c10::Argument::name) - described.end();
    return std::string((stack->end() + place)->toStringView());
  };
  return Agreed(ExchangeOf(text("function"), text("group")), [&] {
    Arguments arguments(op, stack);
    return RequestFrom(arguments);
  });
}

void AttentionOperator(const c10::OperatorHandle& op, Stack* stack) {
  const AttentionOutput result = Computed(PreparedFrom(op, stack));
  torch::jit::push(*stack, result.output, result.lse,
                   result.statistics.defined() ? result.statistics : at::empty({0}, result.lse.options()));
}

void PlanOperator(const c10::OperatorHandle& op, Stack* stack) {
  const Plan plan = PreparedFrom(op, stack).plan;
  torch::jit::push(*stack, std::string(NameOf(plan.method)), plan.reason, plan.forward_bytes, plan.backward_bytes,
                   plan.pairs.value_or(Ints{}));
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(heed, m) {
  // The terms of all ranks; terms: tokens of query, key and value, and a seed. What else the ranks compare
  // distributed_attention and distributed_plan compare themselves, before they send anything else.
  m.def("distributed_agree(str group, str function, str version, int[] terms) -> int[]", kKernel<&AgreeOnTerms>);
  m.def("distributed_answers() -> int", &Answers);
  m.def("distributed_refuse(str group, str function, str reason) -> ()", kKernel<&Tell>);
  m.def("distributed_sent_bytes() -> int", &sent_bytes);
  m.def("distributed_sum(Tensor numbers, str group, str function, str what) -> Tensor");
  m.def("distributed_part(Tensor whole, int dim, int rank, str layout, int[] lengths, str name) -> Tensor");
  m.def("distributed_zigzag_part(Tensor x, int dim, int rank, int ranks) -> Tensor");
  m.def("distributed_move(Tensor x, int dim, str group, str function, str to) -> Tensor");
  const std::string arguments =
      "(Tensor query, Tensor key, Tensor value, " + OptionTensors() + "Tensor? seed=None, *, " + OptionNumbers() + kAgreed;
  m.def(("distributed_attention" + arguments + " -> (Tensor output, Tensor lse, Tensor statistics)").c_str());
  // Method, reason, bytes forward and backward, pairs (none: not counted).
  m.def(("distributed_plan" + arguments + " -> (str, str, int[], int[], int[])").c_str());
}

TORCH_LIBRARY_IMPL(heed, CompositeImplicitAutograd, m) {
  m.impl("distributed_sum", kKernel<&SumOfRanks>);
  m.impl("distributed_part", kKernel<&PartOfRank>);
  m.impl("distributed_zigzag_part", kKernel<&zigzag_part>);
  m.impl("distributed_move", kKernel<&Move>);
  m.impl("distributed_attention", BoxedKernel<&AttentionOperator>());
  m.impl("distributed_plan", BoxedKernel<&PlanOperator>());
}

}  // namespace heed::nn::distributed
