// Self-attention and positional encoding, from top to bottom: the section of "Dive into Deep Learning" with that name as one
// program. It prints the numbers that the book's text and figures are made of.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>

#include <ATen/ATen.h>

#include "book/comparison/comparison.h"
#include "book/positions/positions.h"
#include "heed/nn/multi_head_attention.h"
#include "heed/nn/positional_encoding.h"

namespace {

void Heading(const char* text) { std::printf("\n%s\n", text); }

void PrintRow(const char* what, int64_t index, const at::Tensor& numbers) {
  std::printf("%s %2d:", what, static_cast<int>(index));
  for (int64_t c = 0; c < numbers.size(0); ++c) std::printf(" %7.4f", numbers[c].item<float>());
  std::printf("\n");
}

// Queries, keys and values are one and the same sequence: five heads over two sequences of four tokens.
void SelfAttention() {
  Heading("Self-attention");
  const int64_t num_hiddens = 100, num_heads = 5, batch_size = 2, num_queries = 4;
  heed::nn::MultiHeadAttention attention(num_hiddens, num_heads, 0.5);
  attention->eval();
  const at::Tensor valid_lens = at::tensor({3, 2});
  const at::Tensor X = at::ones({batch_size, num_queries, num_hiddens});
  const at::Tensor Y = attention->forward(X, X, X, valid_lens);
  std::printf("shape of the output: [%d, %d, %d]\n", static_cast<int>(Y.size(0)), static_cast<int>(Y.size(1)),
              static_cast<int>(Y.size(2)));
}

// One layer of each kind over n tokens of width d: what it costs, how much of it must wait for its predecessor, and how many
// hops lie between the first and the last token. The numbers are counted on running layers; operations are multiply-adds, and
// the projections of self-attention are left out, as in the book.
void ComparingEncoders() {
  Heading("Comparing CNNs, RNNs and self-attention (kernel 3, width 8)");
  heed::lab::ComparisonOptions options;
  options.layers = heed::lab::LayersNamed({"convolution", "convolution-causal", "rnn", "attention"});
  options.lengths = {5, 16, 64};
  options.width = 8;
  options.no_time = true, options.fit_exponents = false;
  options.influence_length = 0;
  const heed::lab::Comparison comparison = heed::lab::Compare(options);
  std::printf("%-24s %6s %12s %12s %12s\n", "layer", "n", "operations", "sequential", "path length");
  for (const heed::lab::ComparisonRow& row : comparison.rows) {
    const bool attends = row.found.scores_and_sums() > 0;
    const int64_t operations = attends ? row.found.scores_and_sums() : row.found.multiply_adds();
    std::printf("%-24s %6d %12d %12d %12d\n", row.layer->name().c_str(), static_cast<int>(row.length),
                static_cast<int>(operations), static_cast<int>(row.found.sequential_steps),
                static_cast<int>(row.found.path_length));
  }
  std::printf("largest difference from the closed formulas: %d\n", static_cast<int>(comparison.largest_error));
}

// Sixty rows of a table of width 32; columns 6 and 7 share one frequency, 8 and 9 a lower one.
at::Tensor PositionalEncoding() {
  Heading("Positional encoding, columns 6 to 9");
  const int64_t encoding_dim = 32, num_steps = 60;
  heed::nn::PositionalEncoding pos_encoding(encoding_dim, 0.0);
  pos_encoding->eval();
  const at::Tensor X = pos_encoding->forward(at::zeros({1, num_steps, encoding_dim}));
  at::Tensor P = pos_encoding->P()[0].slice(0, 0, num_steps);
  std::printf("zeros come out as the table: %s\n", at::equal(X[0], P) ? "yes" : "no");
  for (const int64_t row : {0, 1, 2, 3, 58, 59}) PrintRow("row", row, P[row].slice(0, 6, 10));
  return P;
}

void AbsolutePositions(const at::Tensor& P) {
  Heading("Absolute positions: lower bits alternate faster than higher ones");
  for (const std::string& line : heed::lab::BinaryTable(8)) std::printf("%s\n", line.c_str());
  Heading("The same in the encoding: the heat map's first numbers");
  for (int64_t row = 0; row < 4; ++row) PrintRow("row", row, P[row].slice(0, 0, 4));
}

// cos and sin of a shifted position are those of the position, rotated by an angle that depends on the shift alone.
void RelativePositions(const at::Tensor& P) {
  Heading("Relative positions: a shift is a rotation of each pair of columns");
  const int64_t delta = 5, pair = 3;
  const double angle = delta / std::pow(10000.0, 2.0 * pair / P.size(1));
  const at::Tensor rotation = at::tensor({std::cos(angle), std::sin(angle), -std::sin(angle), std::cos(angle)}).view({2, 2});
  const at::Tensor columns = P.slice(1, 2 * pair, 2 * pair + 2).to(at::kDouble);
  const at::Tensor rotated = columns.slice(0, 0, -delta).matmul(rotation.t());
  const double error = (rotated - columns.slice(0, delta)).abs().max().item<double>();
  std::printf("columns 6 and 7 of row i, rotated, are those of row i + 5: %s\n", error < 1e-6 ? "yes" : "no");
  const heed::lab::RotationCheck check =
      heed::lab::CheckRotation(heed::View<const float, 2>::Contiguous(P.data_ptr<float>(), {P.size(0), P.size(1)}));
  std::printf("every pair, every shift, both directions: %s\n", check.Passed() ? "yes" : "no");
}

}  // namespace

int main() {
  SelfAttention();
  ComparingEncoders();
  const at::Tensor P = PositionalEncoding();
  AbsolutePositions(P);
  RelativePositions(P);
  return 0;
}
