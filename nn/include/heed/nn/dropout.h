// Dropout of activations, by counters.
#ifndef HEED_NN_DROPOUT_H_
#define HEED_NN_DROPOUT_H_

#include <cstdint>
#include <ostream>

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

namespace heed::nn {

// In training, every element of X is 0 with probability p, the others are divided by 1 - p; in evaluation nothing happens. The
// same law as torch::nn::Dropout, whose CPU kernel draws its numbers on one thread and keeps the mask for the backward pass:
// here the mask is a function of one seed, drawn from PyTorch's default generator at each call, and is made again in the
// backward pass (heed/dropout.h). p is resolved to 1/65536. float32 and float64 on the CPU; other tensors go to PyTorch's own
// dropout. Differentiable any number of times. Throws InvalidArgument for p outside [0, 1].
torch::Tensor drop_elements(const torch::Tensor& X, double p, bool training);

// While it lives, the first row of a batch counts as row `row` for all dropout that this thread's calls of nn draw: of
// activations, whose first dimension is then the batch, and of attention weights, on top of their own batch_offset. So a part
// of a batch, computed alone after the same draws, is dropped as within the whole. Throws InvalidArgument for a negative row.
class FirstBatchRow {
 public:
  explicit FirstBatchRow(int64_t row);
  ~FirstBatchRow();
  FirstBatchRow(const FirstBatchRow&) = delete;
  FirstBatchRow& operator=(const FirstBatchRow&) = delete;

 private:
  int64_t before_;
};
// That of this thread, 0 without one.
int64_t first_batch_row();

class DropoutImpl : public torch::nn::Cloneable<DropoutImpl> {
 public:
  explicit DropoutImpl(double p = 0.5);
  void reset() override {}
  void pretty_print(std::ostream& stream) const override;
  torch::Tensor forward(const torch::Tensor& X);

 private:
  double p_;
};
TORCH_MODULE(Dropout);

}  // namespace heed::nn

#endif  // HEED_NN_DROPOUT_H_
