#include "heed/nn/dropout.h"

#include <cmath>
#include <cstddef>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "attention_call.h"
#include "executor.h"
#include "heed/dropout.h"
#include "refuse.h"
#include "sequence.h"
#include "tensor_view.h"

namespace heed::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

thread_local int64_t first_row = 0;

// runs: of the whole of which X is a part, see RunsOfWhole; three numbers each.
template <class T>
void Drop(double p, int64_t seed, at::IntArrayRef runs, const at::Tensor& X, const at::Tensor& Y) {
  TorchExecutor executor;
  const heed::Dropout dropout{p, static_cast<uint64_t>(seed)};
  const T* const from = AddressOf<const T>(X);
  T* const to = AddressOf<T>(Y);
  for (std::size_t r = 0; r < runs.size(); r += 3) {
    DropElements(dropout, from + runs[r], to + runs[r], runs[r + 2], executor, runs[r + 1]);
  }
}

std::vector<int64_t> FlatRuns(const at::Tensor& X) {
  std::vector<int64_t> flat;
  for (const Run& run : RunsOfWhole(X)) flat.insert(flat.end(), {run.here, run.whole, run.count});
  return flat;
}

// The gradient is the same function of the output's gradient.
struct DropoutFunction : Function<DropoutFunction> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& view, double p, int64_t seed, at::IntArrayRef runs) {
    ctx->saved_data["p"] = p;
    ctx->saved_data["seed"] = seed;
    ctx->saved_data["runs"] = runs;
    const at::Tensor X = Dense("X", view).contiguous();
    at::Tensor Y = at::empty_like(X);
    X.scalar_type() == at::kDouble ? Drop<double>(p, seed, runs, X, Y) : Drop<float>(p, seed, runs, X, Y);
    return Y;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = [ctx](const char* name) { return ctx->saved_data[name]; };
    return {apply(gradients[0], saved("p").toDouble(), saved("seed").toInt(), saved("runs").toIntVector()), {}, {}, {}};
  }
};

void CheckProbability(double p) {
  if (!(p >= 0.0 && p <= 1.0)) Refuse("Dropout: p: expected a number in [0, 1], got ", p);
}

}  // namespace

torch::Tensor drop_elements(const torch::Tensor& X, double p, bool training) {
  CheckProbability(p);
  if (!training || p == 0.0) return X;
  const bool ours = X.device().is_cpu() && X.layout() == at::kStrided && !X.is_nested() &&
                    (X.scalar_type() == at::kFloat || X.scalar_type() == at::kDouble) && std::lround(p * 65536) < 65536;
  if (!ours) {
    RefuseSequencePart("Dropout", "PyTorch's own, which drops other types and probabilities near 1, counts no tokens");
    return at::dropout(X, p, /*train=*/true);
  }
  return DropoutFunction::apply(X, p, DrawSeed(), FlatRuns(X));
}

FirstBatchRow::FirstBatchRow(int64_t row) : before_(first_row) {
  if (row < 0) Refuse("FirstBatchRow: row: expected 0 or more, got ", row);
  first_row = row;
}

FirstBatchRow::~FirstBatchRow() { first_row = before_; }

int64_t first_batch_row() { return first_row; }

DropoutImpl::DropoutImpl(double p) : p_(p) { CheckProbability(p); }

void DropoutImpl::pretty_print(std::ostream& stream) const { stream << "heed::nn::Dropout(p=" << p_ << ")"; }

torch::Tensor DropoutImpl::forward(const torch::Tensor& X) { return drop_elements(X, p_, is_training()); }

}  // namespace heed::nn
