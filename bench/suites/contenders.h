// The two sides of one benchmark case, with the same inputs.
#ifndef HEED_BENCH_SUITES_CONTENDERS_H_
#define HEED_BENCH_SUITES_CONTENDERS_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "bench/suites/call_case.h"
#include "lab/training/optimizer.h"

namespace heed::lab {

enum class BenchSide { kHeed, kTorch };

class BenchContenders {
 public:
  virtual ~BenchContenders() = default;

  // One run as it is timed: what it computed, by names that both sides share. Of attention the output and, where the pass goes
  // backward, the gradient of every input; of a training step the loss and the gradient of every parameter. Nothing that takes
  // memory stays behind, so that every run needs what the first one did.
  virtual NamedTensors Run(BenchSide side, BenchPass pass) = 0;
  // What a side reads, by the same names: the inputs of attention, which both share, or the parameters of the side's model.
  // Writing into these tensors changes what the next run reads.
  virtual NamedTensors Arrays(BenchSide side) = 0;
  // The names of the ways in which LibTorch's side can be written so that it computes the same; the first is the plain one,
  // which runs until another is set.
  virtual std::vector<std::string> TorchWays() const { return {""}; }
  virtual void SetTorchWay(std::size_t /*place*/) {}
  // Which implementation of attention LibTorch chooses in this pass and way: "flash" or "math".
  virtual std::string TorchPath(BenchPass pass) const = 0;
  // Useful floating-point operations of one run.
  virtual double Operations(BenchPass pass) const = 0;
};

std::unique_ptr<BenchContenders> MakeContenders(const CallCase& c);
// heed's attention beside LibTorch's scaled_dot_product_attention; a training step of heed's language model beside the same
// model out of LibTorch's modules.
std::unique_ptr<BenchContenders> MakeAttentionContenders(const CallCase& c);
std::unique_ptr<BenchContenders> MakeTrainingContenders(const CallCase& c);
// Lets LibTorch's side run in the way that is the fastest in a short trial, and returns its name.
std::string ChooseTorchWay(BenchContenders& contenders, BenchPass pass);

}  // namespace heed::lab

#endif  // HEED_BENCH_SUITES_CONTENDERS_H_
