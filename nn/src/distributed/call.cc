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

}  // namespace heed::nn::distributed
