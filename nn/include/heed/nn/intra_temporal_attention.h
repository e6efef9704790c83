// Attention of a decoder to a source that lowers the weights of steps it has attended to.
#ifndef HEED_NN_INTRA_TEMPORAL_ATTENTION_H_
#define HEED_NN_INTRA_TEMPORAL_ATTENTION_H_

#include <cstdint>
#include <utility>

#include <torch/nn/cloneable.h>
#include <torch/nn/modules/common.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

namespace heed::nn {

// Source steps that had large scores at earlier decoder steps get less weight. With q_t the decoder's states and m_i the
// source,
//
//   e_ti = q_t . W m_i                                         (equations 1 and 2)
//   f_1i = exp(e_1i),   f_ti = exp(e_ti) / sum_j<t exp(e_ji)   (equation 3)
//   c_t = sum_i a_ti m_i,   a_ti = f_ti / sum_i f_ti           (equations 4 and 5)
//
// Paulus et al. 2018, "A Deep Reinforced Model for Abstractive Summarization", section 2.1. The layer computes with logarithms,
// so no score overflows. Scores take steps * n numbers of memory for each row, n in step-by-step decoding. Submodule attend
// (W).
class IntraTemporalAttentionImpl : public torch::nn::Cloneable<IntraTemporalAttentionImpl> {
 public:
  // Sizes of q and m. Throws InvalidArgument.
  IntraTemporalAttentionImpl(int64_t query_size, int64_t memory_size);
  void reset() override;

  // queries [batch, steps, query_size], memory [batch, n, memory_size] -> c [batch, steps, memory_size], and `past` for the
  // call with the next steps, [batch, n]: the logarithm of sum_j exp(e_ji) over all steps so far. valid_lens: undefined or
  // [batch]: memory at and beyond a length has no influence; c is 0 where the length is 0.
  std::pair<torch::Tensor, torch::Tensor> forward(const torch::Tensor& queries, const torch::Tensor& memory,
                                                  const torch::Tensor& valid_lens = {}, const torch::Tensor& past = {});

  int64_t query_size, memory_size;
  torch::nn::Linear attend{nullptr};

 protected:
  FORWARD_HAS_DEFAULT_ARGS({2, torch::nn::AnyValue(torch::Tensor())}, {3, torch::nn::AnyValue(torch::Tensor())})
};
TORCH_MODULE(IntraTemporalAttention);

}  // namespace heed::nn

#endif  // HEED_NN_INTRA_TEMPORAL_ATTENTION_H_
