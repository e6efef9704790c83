// The layers that heed::nn's encoders are made of, one at a time and without norm and residual, beside the counted layers.
#ifndef HEED_BOOK_COMPARISON_NN_LAYER_H_
#define HEED_BOOK_COMPARISON_NN_LAYER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "book/comparison/layer.h"

namespace heed::lab {

// The mixing module inside a ConvolutionEncoder, RecurrentEncoder (left to right), LinearEncoder or AttentionEncoder, with
// random weights. heed::nn has no linear recurrence; that one is written with LibTorch's operations.
class NnLayer {
 public:
  NnLayer(const Layer& layer, const LayerShape& shape, uint64_t seed);
  ~NnLayer();

  LayerWeights Weights() const;  // in the order and layout of the layer

  // x [length, width] -> the same, computed in double.
  std::vector<double> Forward(const std::vector<double>& x) const;

  // The fastest of forward passes in float32 without gradients, batch of one: at least five, more for about `budget` seconds.
  // What disturbs a pass can only lengthen it.
  double FastestSeconds(int64_t length, int threads, double budget = 0.03) const;

 private:
  struct Modules;
  std::unique_ptr<Modules> modules_;
};

}  // namespace heed::lab

#endif  // HEED_BOOK_COMPARISON_NN_LAYER_H_
