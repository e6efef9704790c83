// What a call costs before it computes: attention over one query and one key beside an operator that does nothing, both with
// outputs to allocate. Microseconds of the calling thread, the least of many.
#include <algorithm>
#include <cstdio>
#include <tuple>

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include "bench/fastest.h"
#include "heed/nn/attention.h"

namespace {

template <class F>
double Fastest(const F& call) {
  constexpr int kRounds = 300, kCalls = 50;
  double best = 1e30;
  for (int round = 0; round < kRounds; ++round) {
    const double start = heed::bench::ThreadSeconds();
    for (int i = 0; i < kCalls; ++i) call();
    best = std::min(best, 1e6 * (heed::bench::ThreadSeconds() - start) / kCalls);
  }
  return best;
}

at::Tensor Trained() { return at::randn({1, 1, 1, 8}).requires_grad_(true); }

}  // namespace

int main() {
  const auto nothing =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("heed_bench::nothing", "")
          .typed<std::tuple<at::Tensor, at::Tensor, at::Tensor>(const at::Tensor&, const at::Tensor&, const at::Tensor&)>();
  for (const bool gradient : {false, true}) {
    const at::Tensor q = at::randn({1, 1, 1, 8}).requires_grad_(gradient), k = at::randn({1, 1, 1, 8}),
                     v = at::randn({1, 1, 1, 8});
    const double empty = Fastest([&] { nothing.call(q, k, v); });
    const double attention = Fastest([&] { heed::nn::attention(q, k, v, heed::nn::AttentionOptions()); });
    const double torch = Fastest([&] { at::scaled_dot_product_attention(q, k, v); });
    std::printf(
        "%s: operator that does nothing %.2f us, attention %.2f us (%.2f over it), scaled_dot_product_attention %.2f us\n",
        gradient ? "with gradient" : "without gradient", empty, attention, attention - empty, torch);
  }
  const at::Tensor q = Trained(), k = Trained(), v = Trained(), d_output = at::randn({1, 1, 1, 8});
  const auto both = [&](const auto& forward) {
    return Fastest([&] {
      forward().backward(d_output);
      for (const at::Tensor* input : {&q, &k, &v}) input->mutable_grad().reset();
    });
  };
  const double sum = both([&] { return q + k + v; });
  const double attention = both([&] { return heed::nn::attention(q, k, v, heed::nn::AttentionOptions()).output; });
  const double torch = both([&] { return at::scaled_dot_product_attention(q, k, v); });
  std::printf(
      "with its gradients: sum of the three %.2f us, attention %.2f us (%.2f over it), scaled_dot_product_attention %.2f us\n",
      sum, attention, attention - sum, torch);
  return 0;
}
