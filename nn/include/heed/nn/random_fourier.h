// Positions of any number of axes as random waves, added to the input.
#ifndef HEED_NN_RANDOM_FOURIER_H_
#define HEED_NN_RANDOM_FOURIER_H_

#include <cstdint>

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

namespace heed::nn {

// X + [cos(2 pi p B), sin(2 pi p B)] for tokens at positions p, B fixed and drawn from N(0, deviation): close positions have
// close encodings, and how close is what the deviation says. Tancik et al. 2020, "Fourier Features Let Networks Learn High
// Frequency Functions in Low Dimensional Domains", section 4.
class RandomFourierImpl : public torch::nn::Cloneable<RandomFourierImpl> {
 public:
  // width: of the input, even. axes: numbers that tell where a token stands.
  explicit RandomFourierImpl(int64_t width, int64_t axes = 1, double deviation = 1.0);
  void reset() override;
  // X [batch, steps, width] -> the same shape, of X's type (of the directions' where X has whole numbers). positions: int64 or
  // float64, [batch or 1, steps, axes] or [steps, axes]; of one axis also [batch or 1, steps] or [steps].
  torch::Tensor forward(const torch::Tensor& X, const torch::Tensor& positions);
  torch::Tensor directions;  // B, [axes, width/2], a buffer

 private:
  int64_t width_, axes_;
  double deviation_;
};
TORCH_MODULE(RandomFourier);

}  // namespace heed::nn

#endif  // HEED_NN_RANDOM_FOURIER_H_
