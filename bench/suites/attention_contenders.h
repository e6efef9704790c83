// heed's attention beside LibTorch's scaled_dot_product_attention.
#ifndef HEED_BENCH_SUITES_ATTENTION_CONTENDERS_H_
#define HEED_BENCH_SUITES_ATTENTION_CONTENDERS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "bench/suites/call_case.h"
#include "bench/suites/contenders.h"
#include "bench/suites/torch_attention.h"

namespace heed::lab {

// Threads and pass of the case are the caller's to heed.
class AttentionContenders : public BenchContenders {
 public:
  explicit AttentionContenders(const CallCase& c);

  NamedTensors Run(BenchSide side, BenchPass pass) override;
  NamedTensors Arrays(BenchSide side) override;
  std::string TorchPath(BenchPass pass) const override;
  double Operations(BenchPass pass) const override;
  std::vector<std::string> TorchWays() const override;
  void SetTorchWay(std::size_t place) override { way_ = ways_.at(place); }

 private:
  at::Tensor HeedOutput() const;
  NamedTensors Inputs() const;  // those with gradients

  CallCase case_;
  AttentionInputs inputs_;
  at::Tensor d_out_, key_lengths_, query_lengths_;  // lengths [B]
  std::optional<TorchAttention> torch_;
  std::vector<TorchWay> ways_;
  TorchWay way_;
};

}  // namespace heed::lab

#endif  // HEED_BENCH_SUITES_ATTENTION_CONTENDERS_H_
