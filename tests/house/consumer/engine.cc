// Causal attention over two steps: the first step sees itself alone, the second both, in the proportion 1 : e.
#include <heed/attention.h>

#include <cmath>
#include <cstdio>

int main() {
  const float q[] = {1, 1}, k[] = {0, 1}, v[] = {10, 20};
  float out[2] = {};
  const std::array<int64_t, 4> extent{1, 1, 2, 1};  // [batch, heads, steps, width]
  heed::Attention attention;
  attention.causal = heed::Causal::kBottomRight;
  heed::Forward(attention, heed::View<const float, 4>::Contiguous(q, extent), heed::View<const float, 4>::Contiguous(k, extent),
                heed::View<const float, 4>::Contiguous(v, extent), heed::View<float, 4>::Contiguous(out, extent));
  std::printf("%.4f %.4f\n", out[0], out[1]);
  const double expected = (10 + 20 * std::exp(1.0)) / (1 + std::exp(1.0));
  return std::abs(out[0] - 10) < 1e-5 && std::abs(out[1] - expected) < 1e-4 ? 0 : 1;
}
