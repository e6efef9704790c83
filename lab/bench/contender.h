// The two sides of one benchmark case, with the same inputs.
#ifndef HEED_LAB_BENCH_CONTENDER_H_
#define HEED_LAB_BENCH_CONTENDER_H_

#include <string>

#include <ATen/core/Tensor.h>

#include "heed/nn/attention.h"
#include "lab/bench/bench.h"

namespace heed::lab {

// Inputs of one case, and one call of each library on them. `backward` adds the gradients of all inputs.
class Contenders {
 public:
  explicit Contenders(const BenchCase& c);

  void RunHeed(bool backward);
  void RunTorch(bool backward);
  std::string TorchPath() const;  // "flash" or "math"
  double Operations() const;      // useful floating-point operations of the forward pass

 private:
  at::Tensor TorchBias() const;
  void Finish(const at::Tensor& output, bool backward);

  BenchCase case_;
  at::Tensor q_, k_, v_, d_out_;
  at::Tensor table_, offsets_;  // relative bias [H, 2n-1] and the column of every pair [n, n]
  at::Tensor lengths_, mask_;   // [B]; [B, 1, n, n] or [B, 1, 1, n], true where visible
  double dropout_ = 0;
  bool causal_ = false;
};

}  // namespace heed::lab

#endif  // HEED_LAB_BENCH_CONTENDER_H_
