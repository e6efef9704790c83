// Published schemes as functions of the score, also examples for your own.
#ifndef HEED_NN_SCORE_FUNCTIONS_H_
#define HEED_NN_SCORE_FUNCTIONS_H_

#include <cstdint>
#include <optional>

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

#include "heed/nn/attention_position.h"

namespace heed::nn {

enum class KerpleKind { kLog, kPower };

// Subtracts a trainable function of the distance in each head. kLog: score - rate log(1 + scale |i - j|); kPower: score - scale
// |i - j|^rate, rate up to 2. Numbers below 0.01 count as 0.01, as in the authors' code, and get the gradient of 0.01. Alibi is
// kPower with rate 1. Chi et al. 2022, "KERPLE", sections 4 and 5.
class KerpleImpl : public torch::nn::Cloneable<KerpleImpl>, public AttentionPosition {
 public:
  explicit KerpleImpl(int64_t heads, KerpleKind kind = KerpleKind::kLog);
  void reset() override;
  std::optional<PositionProgram> program() const override;
  torch::Tensor rate;   // [heads], uniform in 0..2 at first
  torch::Tensor scale;  // [heads], uniform in 0..1 at first

 private:
  int64_t heads_;
  KerpleKind kind_;
};
TORCH_MODULE(Kerple);

// The inner product of two sinusoidal encodings of width head_dim as a bias: score + (sum over t = 1..head_dim/2 of cos((i - j)
// / 10000^(2t / head_dim)) - head_dim/2) / (8 h / heads), h = 1..heads. Subtracting head_dim/2 makes the bias 0 at distance 0
// and changes no weight. No parameters. Chi et al. 2023, "Dissecting Transformer Length Extrapolation via the Lens of Receptive
// Field Analysis", section 5.
class SandwichImpl : public torch::nn::Cloneable<SandwichImpl>, public AttentionPosition {
 public:
  explicit SandwichImpl(int64_t heads, int64_t head_dim = 128);
  void reset() override {}
  std::optional<PositionProgram> program() const override;

 private:
  int64_t heads_;
  ScoreProgram program_;
};
TORCH_MODULE(Sandwich);

// Adds a small network's function of the distance, divided by the query's position: score + f(psi(|i - j|) / (psi(max(i,
// |multiplier| * threshold)) + 1e-6)), psi(x) = log(1 + |c| x), f: 1 -> width -> ReLU -> heads. Shifting both positions changes
// it: give the true positions. Li et al. 2024, "Functional Interpolation for Relative Positions", section 3.
class FireImpl : public torch::nn::Cloneable<FireImpl>, public AttentionPosition {
 public:
  // width: units of the network. threshold: the paper's L, in steps; query positions below it count as it.
  explicit FireImpl(int64_t heads, int64_t width = 32, double threshold = 512.0);
  void reset() override;
  std::optional<PositionProgram> program() const override;
  torch::Tensor c;              // [1], 0.1 at first
  torch::Tensor multiplier;     // [1], of the threshold, 1 at first
  torch::Tensor first_weight;   // [width]; the network starts as torch::nn::Linear does
  torch::Tensor first_bias;     // [width]
  torch::Tensor second_weight;  // [heads, width]
  torch::Tensor second_bias;    // [heads]

 private:
  int64_t heads_, width_;
  ScoreProgram program_;
};
TORCH_MODULE(Fire);

// A trainable temperature in each head: score * exp(log_scale).
class TemperatureImpl : public torch::nn::Cloneable<TemperatureImpl>, public AttentionPosition {
 public:
  explicit TemperatureImpl(int64_t heads);
  void reset() override;
  std::optional<PositionProgram> program() const override;
  torch::Tensor log_scale;  // [heads], 0 at first

 private:
  int64_t heads_;
};
TORCH_MODULE(Temperature);

// Adds trainable waves of the offset in each head: score + sum over t of cosine[h, t] cos(w_t (i - j)) + sine[h, t] sin(w_t (i
// - j)), w_t = 10000^(-t / frequencies). The inner product of two of the book's positional encodings is such a sum, with equal
// cosines and no sines. Sines tell left from right.
class SinusoidalBiasImpl : public torch::nn::Cloneable<SinusoidalBiasImpl>, public AttentionPosition {
 public:
  explicit SinusoidalBiasImpl(int64_t heads, int64_t frequencies = 16);
  void reset() override;
  std::optional<PositionProgram> program() const override;
  torch::Tensor cosine, sine;  // [heads, frequencies], 0 at first

 private:
  int64_t heads_, frequencies_;
  ScoreProgram program_;
};
TORCH_MODULE(SinusoidalBias);

}  // namespace heed::nn

#endif  // HEED_NN_SCORE_FUNCTIONS_H_
