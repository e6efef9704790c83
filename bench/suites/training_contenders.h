// One training step of heed's language model beside the same model out of LibTorch's modules.
#ifndef HEED_BENCH_SUITES_TRAINING_CONTENDERS_H_
#define HEED_BENCH_SUITES_TRAINING_CONTENDERS_H_

#include <memory>
#include <string>

#include "bench/suites/contenders.h"

namespace heed::lab {

// A causal character model of four pre-norm layers with learned positions and the head tied to the embedding: forward,
// backward, fused AdamW. Both sides start with the same parameters.
class TrainingContenders : public BenchContenders {
 public:
  explicit TrainingContenders(const CallCase& c);
  ~TrainingContenders() override;

  NamedTensors Run(BenchSide side, BenchPass pass) override;
  NamedTensors Arrays(BenchSide side) override;
  std::string TorchPath(BenchPass pass) const override;
  double Operations(BenchPass pass) const override;

 private:
  struct Sides;
  CallCase case_;
  std::unique_ptr<Sides> sides_;
};

}  // namespace heed::lab

#endif  // HEED_BENCH_SUITES_TRAINING_CONTENDERS_H_
