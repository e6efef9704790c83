// heed's attention beside LibTorch's scaled_dot_product_attention.
#ifndef HEED_LAB_BENCH_ATTENTION_CONTENDERS_H_
#define HEED_LAB_BENCH_ATTENTION_CONTENDERS_H_

#include <string>

#include <ATen/core/Tensor.h>

#include "lab/bench/contenders.h"

namespace heed::lab {

class AttentionContenders : public Contenders {
 public:
  explicit AttentionContenders(const BenchCase& c);

  NamedTensors Run(BenchSide side, BenchPass pass) override;
  NamedTensors Arrays(BenchSide side) override;
  std::string TorchPath(BenchPass pass) const override;
  double Operations(BenchPass pass) const override;

 private:
  at::Tensor HeedOutput() const;
  at::Tensor TorchOutput() const;
  at::Tensor TorchBias() const;
  NamedTensors Inputs() const;  // those with gradients

  BenchCase case_;
  at::Tensor q_, k_, v_, d_out_;
  at::Tensor table_, offsets_;  // relative bias [H, 2n-1] and the column of every pair [n, n]
  at::Tensor lengths_, mask_;   // [B]; [B, 1, n, n] or [B, 1, 1, n], true where visible
  double dropout_ = 0;
  bool causal_ = false;
};

}  // namespace heed::lab

#endif  // HEED_LAB_BENCH_ATTENTION_CONTENDERS_H_
