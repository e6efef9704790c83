#include "distributed/call.h"

#include <cstddef>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>

#include "heed/error.h"

namespace heed::nn::distributed {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::size_t kFirstTable = Operands::kOwnNames.size();

struct CallHolder : torch::CustomClassHolder {
  explicit CallHolder(SharedCall value) : call(std::move(value)) {}
  SharedCall call;
};

}  // namespace

void AddTableSums(const Call& call, Operands& operands, Gradients& d) {
  for (std::size_t t = kFirstTable; t < Operands::kCount; ++t)
    if (call.needs[t]) d[t] = at::zeros(operands.All()[t]->sizes(), at::kDouble);
}

void SumTables(const Call& call, Operands& operands, Gradients& d) {
  std::vector<at::Tensor> numbers;
  std::vector<int64_t> counts;
  for (std::size_t t = kFirstTable; t < Operands::kCount; ++t) {
    if (!d[t].defined()) continue;
    numbers.push_back(d[t].reshape(-1));
    counts.push_back(d[t].numel());
  }
  if (numbers.empty()) return;
  const at::Tensor total = SumOverRanks(call.exchange, at::cat(numbers), "whose gradients of tables are added up");
  const std::vector<at::Tensor> sums = total.split_with_sizes(counts);
  auto sum = sums.begin();
  for (std::size_t t = kFirstTable; t < Operands::kCount; ++t)
    if (d[t].defined()) d[t] = (sum++)->view(d[t].sizes()).to(operands.All()[t]->scalar_type());
}

Operands OperandsOf(const Wanted& given, const variable_list& present) {
  Operands operands;
  auto next = present.begin();
  for (std::size_t t = 0; t < Operands::kCount; ++t)
    if (given[t]) *operands.All()[t] = *next++;
  return operands;
}

void KeepCall(AutogradContext* ctx, const SharedCall& call) {
  ctx->saved_data["call"] = c10::IValue::make_capsule(c10::make_intrusive<CallHolder>(call));
  ctx->set_materialize_grads(false);
}

SharedCall KeptCall(AutogradContext* ctx) {
  return c10::static_intrusive_pointer_cast<CallHolder>(ctx->saved_data["call"].toCapsule())->call;
}

variable_list Wanting(const Gradients& d) {
  variable_list wanted;
  for (const at::Tensor& gradient : d)
    if (gradient.defined()) wanted.push_back(gradient);
  return wanted;
}

variable_list InPlaces(const Call& call, const variable_list& wanted) {
  variable_list gradients;
  auto next = wanted.begin();
  for (std::size_t t = 0; t < Operands::kCount; ++t)
    if (call.given[t]) gradients.push_back(call.needs[t] ? *next++ : at::Tensor());
  gradients.emplace_back();  // of the call
  return gradients;
}

void RefuseSecondDerivative() {
  throw Error("attention: a second derivative was asked for; only first derivatives are implemented");
}

}  // namespace heed::nn::distributed
