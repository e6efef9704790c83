// The layers that heed::nn's encoders are made of, one at a time and without norm and residual, beside the counted layers.
#ifndef HEED_LAB_COMPARISON_NN_LAYER_H_
#define HEED_LAB_COMPARISON_NN_LAYER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "lab/comparison/layers.h"

namespace heed::lab {

// The mixing module inside a one-layer ConvolutionEncoder, RecurrentEncoder (tanh cell, left to right) or AttentionEncoder,
// with random weights.
class NnLayer {
 public:
  NnLayer(const LayerShape& layer, uint64_t seed);
  ~NnLayer();

  LayerWeights<double> Weights() const;  // in the order and layout of layers.h

  // x [length, width] -> the same, computed in double.
  std::vector<double> Forward(const std::vector<double>& x) const;

  // Median over forward passes in float32 without gradients, batch of one: at least five, more for about `budget` seconds.
  double MedianSeconds(int64_t length, double budget = 0.1) const;

 private:
  struct Modules;
  std::unique_ptr<Modules> modules_;
};

}  // namespace heed::lab

#endif  // HEED_LAB_COMPARISON_NN_LAYER_H_
