#include "distributed/call.h"

#include <cstddef>
#include <vector>

#include <ATen/ATen.h>

namespace heed::nn::distributed {
namespace {

constexpr std::size_t kFirstTable = Operands::kOwnNames.size();

}  // namespace

void AddTableSums(const Call& call, Operands& operands, Gradients& d) {
  for (std::size_t t = kFirstTable; t < Operands::kCount; ++t)
    if (call.needs[t]) d[t] = at::zeros(operands.All()[t]->sizes(), at::kDouble);
}

void SumTables(const Call& call, Operands& operands, Gradients& d) {
  std::vector<at::Tensor> numbers;
  for (std::size_t t = kFirstTable; t < Operands::kCount; ++t)
    if (d[t].defined()) numbers.push_back(d[t]);
  const std::vector<at::Tensor> sums = SumsOverRanks(call.exchange, numbers, "whose gradients of tables are added up");
  auto sum = sums.begin();
  for (std::size_t t = kFirstTable; t < Operands::kCount; ++t)
    if (d[t].defined()) d[t] = (sum++)->to(operands.All()[t]->scalar_type());
}

}  // namespace heed::nn::distributed
