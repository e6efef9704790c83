// Dropout of activations, by counters.
#ifndef HEED_NN_DROPOUT_H_
#define HEED_NN_DROPOUT_H_

#include <cstdint>
#include <ostream>

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

namespace heed::nn {

// In training, sets every element of X to 0 with probability p and divides the others by 1 - p; in evaluation returns X. The
// distribution is that of torch::nn::Dropout, whose CPU kernel draws on one thread and stores the mask. Here a seed, drawn from
// PyTorch's default generator at each call, determines the mask, and the backward pass makes it again (heed/dropout.h). p is
// rounded to 1/65536. float32 and float64 on the CPU; PyTorch's own dropout takes other tensors. Differentiable any number of
// times. Throws InvalidArgument for p outside [0, 1].
torch::Tensor drop_elements(const torch::Tensor& X, double p, bool training);

// While it lives, the first row of a batch counts as row `row` for all dropout of this thread's calls of nn: of activations,
// whose first dimension is then the batch, and of attention weights, on top of their own batch_offset. A part of a batch with
// the same seed then drops as in the whole batch. Throws InvalidArgument for a negative row.
class FirstBatchRow {
 public:
  explicit FirstBatchRow(int64_t row);
  ~FirstBatchRow();
  FirstBatchRow(const FirstBatchRow&) = delete;
  FirstBatchRow& operator=(const FirstBatchRow&) = delete;

 private:
  int64_t before_;
};
// The FirstBatchRow of this thread, 0 without one.
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
