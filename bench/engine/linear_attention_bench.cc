// Speed of linear attention and the gated delta rule as a share of the FMA peak of the same core in the same run, 8 heads of 64
// with a decay a step. Counted are the products of the chunked formulas at chunks of 64 steps, squares of pairs in full, though
// blocks above the diagonal are not computed:
//
//   linear attention   4: q k^T, P v, q S, k^T v; both passes 14: q k^T and k^T v again, dP, dq, dk and dv of pairs and of
//                      states, and q^T dy
//   delta rule         6.5: the same, k k^T, k S and half a square for the substitution; both passes 24.5: all but P v and q S
//                      again, and 13.5 for the gradients
//
//   linear_attention_bench [TARGET]
#include <algorithm>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "bench/fastest.h"
#include "heed/attention.h"
#include "heed/gated_delta.h"
#include "heed/linear_attention.h"
#include "reference/line_array.h"
#include "reference/peaks.h"

namespace {

using heed::View;
using heed::bench::Fastest;
using Array = heed::reference::LineArray<float>;

constexpr int64_t kHeads = 8, kWidth = 64, kChunk = 64;

void Measure(int64_t steps, bool delta) {
  const auto size = static_cast<std::size_t>(kHeads * steps * kWidth);
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 1 / std::sqrt(float{kWidth}));
  std::vector<Array> arrays(8, Array(size));
  for (std::size_t a = 0; a < 4; ++a)
    for (float& x : arrays[a]) x = normal(random);
  const auto view = [&](std::size_t a) { return View<float, 4>::Contiguous(arrays[a].data(), {1, kHeads, steps, kWidth}); };
  Array decay(static_cast<std::size_t>(kHeads * steps), -0.05F), d_decay(decay.size()), beta(decay.size(), 0.5F),
      d_beta(beta.size());
  const auto numbers = [&](auto& array) { return View<float, 3>::Contiguous(array.data(), {1, kHeads, steps}); };

  heed::LinearInputs<float> in;
  in.q = view(0), in.k = view(1), in.v = view(2), in.decay = numbers(decay);
  heed::LinearOutputs<float> to;
  to.out = view(4);
  heed::LinearCotangents<float> from;
  from.d_out = view(3);
  heed::LinearGradients<float> gradients;
  gradients.d_q = view(5), gradients.d_k = view(6), gradients.d_v = view(7), gradients.d_decay = numbers(d_decay);
  if (delta) in.beta = numbers(beta), gradients.d_beta = numbers(d_beta);

  heed::Workspace workspace;
  heed::SerialExecutor serial;
  const double peak = heed::reference::FmaPeak(4);
  const double forward = Fastest(
      [&] { (delta ? heed::GatedDeltaForward<float> : heed::LinearAttentionForward<float>)({}, in, to, workspace, serial); });
  const double backward = Fastest([&] {
    (delta ? heed::GatedDeltaBackward<float> : heed::LinearAttentionBackward<float>)({}, in, from, gradients, workspace,
                                                                                     serial);
  });
  // A product of 64 steps with 64 elements or steps, for all chunks.
  const double product = 2.0 * kHeads * static_cast<double>(steps) * kChunk * kWidth;
  const double once = delta ? 6.5 : 4, both = delta ? 24.5 : 14;
  std::printf("%-17s n%-6ld peak %6.1f GFLOP/s  forward %8.3f ms %5.1f %%  both %8.3f ms %5.1f %%\n",
              delta ? "gated delta rule" : "linear attention", steps, peak * 1e-9, forward * 1e3,
              100 * once * product / forward / peak, (forward + backward) * 1e3,
              100 * both * product / (forward + backward) / peak);
}

}  // namespace

int main(int argc, char** argv) {
  for (const std::string& target : heed::SupportedTargets()) {
    if (argc > 1 ? target != argv[1] : target == "SCALAR") continue;
    heed::UseTarget(target);
    std::printf("%s\n", target.c_str());
    for (const bool delta : {false, true})
      for (const int64_t steps : {512, 2048, 16384}) Measure(steps, delta);
  }
  return 0;
}
