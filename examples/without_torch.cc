// The engine alone, without any framework: causal attention over a padded batch with dropout, forward and backward, and a
// look at what came out.
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

#include "heed/attention.h"

namespace {

constexpr int64_t kBatch = 2, kQueryHeads = 4, kKeyHeads = 2, kSteps = 6, kWidth = 8;

// An array [batch, heads, steps, width] that owns its numbers.
struct Array {
  explicit Array(int64_t heads) : extent{kBatch, heads, kSteps, kWidth}, numbers(kBatch * heads * kSteps * kWidth) {}
  heed::View<double, 4> view() { return heed::View<double, 4>::Contiguous(numbers.data(), extent); }

  std::array<int64_t, 4> extent;
  std::vector<double> numbers;
};

void FillUniform(std::mt19937& generator, Array& array) {
  for (double& number : array.numbers) number = static_cast<double>(generator()) / std::mt19937::max() * 2 - 1;
}

// The scalar whose gradient is taken: the sum of all outputs.
double SumOfOutputs(const heed::Attention& attention, Array& q, Array& k, Array& v) {
  Array out(kQueryHeads);
  heed::Forward(attention, q.view(), k.view(), v.view(), out.view());
  double sum = 0;
  for (double number : out.numbers) sum += number;
  return sum;
}

}  // namespace

int main() {
  std::mt19937 generator(7);
  Array q(kQueryHeads), k(kKeyHeads), v(kKeyHeads), out(kQueryHeads);
  for (Array* array : {&q, &k, &v}) FillUniform(generator, *array);

  // The second sequence of the batch has four steps and two of padding.
  const std::array<int64_t, kBatch> lengths{6, 4};
  heed::Attention attention;
  attention.causal = heed::Causal::kBottomRight;
  attention.key_lengths = heed::Lengths::PerBatch(lengths.data(), kBatch);

  std::vector<double> lse_numbers(kBatch * kQueryHeads * kSteps);
  const auto lse = heed::View<double, 3>::Contiguous(lse_numbers.data(), {kBatch, kQueryHeads, kSteps});
  heed::Forward(attention, q.view(), k.view(), v.view(), out.view(), lse);

  // The first query sees only the first key: its output is the first value, its log-sum-exp the one score.
  double score = 0, first_row = 0;
  for (int64_t c = 0; c < kWidth; ++c) {
    score += q.view()(0, 3, 0, c) * k.view()(0, 1, 0, c) / std::sqrt(double{kWidth});
    first_row = std::max(first_row, std::abs(out.view()(0, 3, 0, c) - v.view()(0, 1, 0, c)));
  }
  std::printf("first query returns the first value: %s\n", first_row < 1e-12 ? "yes" : "no");
  std::printf("its log-sum-exp is its score: %s\n", std::abs(lse(0, 3, 0) - score) < 1e-12 ? "yes" : "no");

  // Padding cannot leak: whatever stands there, the outputs stay the same to the last bit.
  const std::vector<double> before = out.numbers;
  for (int64_t h = 0; h < kKeyHeads; ++h) v.view()(1, h, 5, 0) = std::nan("");
  heed::Forward(attention, q.view(), k.view(), v.view(), out.view());
  std::printf("a NaN in the padding changes nothing: %s\n", before == out.numbers ? "yes" : "no");

  // With dropout, forward and backward draw the same mask again from the seed; nothing is stored in between.
  attention.dropout = {.probability = 0.1, .seed = 42};
  heed::Forward(attention, q.view(), k.view(), v.view(), out.view(), lse);
  Array ones(kQueryHeads), d_q(kQueryHeads), d_k(kKeyHeads), d_v(kKeyHeads);
  ones.numbers.assign(ones.numbers.size(), 1.0);
  heed::Backward<double>(attention,
                         {.q = q.view(), .k = k.view(), .v = v.view(), .out = out.view(), .lse = lse, .d_out = ones.view()},
                         {.q = d_q.view(), .k = d_k.view(), .v = d_v.view()});

  // One gradient against a finite difference of the forward pass.
  double& number = k.view()(0, 1, 2, 3);
  const double step = 1e-5, here = number;
  number = here + step;
  const double above = SumOfOutputs(attention, q, k, v);
  number = here - step;
  const double below = SumOfOutputs(attention, q, k, v);
  const double difference = (above - below) / (2 * step), gradient = d_k.view()(0, 1, 2, 3);
  std::printf("gradient agrees with the finite difference: %s\n", std::abs(difference - gradient) < 1e-8 ? "yes" : "no");
  std::printf("gradient of the padding: %g\n", d_k.view()(1, 0, 5, 0));

  // What does not fit is refused before anything is written, with the argument's name and the shapes.
  try {
    heed::Forward(attention, q.view(), k.view(), v.view(), heed::View<double, 4>::Contiguous(out.numbers.data(), {1, 1, 1, 1}));
  } catch (const heed::InvalidArgument& error) {
    std::printf("refused: %s\n", error.what());
  }
  return 0;
}
