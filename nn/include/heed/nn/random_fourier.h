// Positions of any number of axes as random waves, added to the input.
#ifndef HEED_NN_RANDOM_FOURIER_H_
#define HEED_NN_RANDOM_FOURIER_H_

#include <cstdint>

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

namespace heed::nn {

// X + [cos(2 pi p B), sin(2 pi p B)] for tokens at positions p, with frequencies B drawn once from N(0, scale^2). The inner
// product of two encodings depends only on the difference of their positions; it approximates a Gaussian kernel of standard
// deviation 1 / (2 pi scale). Tancik et al. 2020, "Fourier Features Let Networks Learn High Frequency Functions in Low
// Dimensional Domains", section 4.
class RandomFourierImpl : public torch::nn::Cloneable<RandomFourierImpl> {
 public:
  // width: of the input, even. axes: numbers in a position. scale: standard deviation, in turns per unit of position.
  explicit RandomFourierImpl(int64_t width, int64_t axes = 1, double scale = 1.0, bool trainable = false);
  void reset() override;
  // X [batch, steps, width] -> the same shape, of X's type (the frequencies' type for integers). positions: int64 or float64,
  // [batch or 1, steps, axes] or [steps, axes]; with one axis also [batch or 1, steps] or [steps].
  torch::Tensor forward(const torch::Tensor& X, const torch::Tensor& positions);
  using Cloneable::to;
  // A cast to 16 bits leaves the frequencies unchanged, since far positions multiply their rounding errors.
  void to(torch::Device device, torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Dtype dtype, bool non_blocking = false) override;
  torch::Tensor frequencies;  // B, [axes, width/2], a parameter if trainable, else a buffer

 private:
  int64_t width_, axes_;
  double scale_;
  bool trainable_;
};
TORCH_MODULE(RandomFourier);

}  // namespace heed::nn

#endif  // HEED_NN_RANDOM_FOURIER_H_
