// The two sides of one benchmark case, with the same inputs.
#ifndef HEED_LAB_BENCH_CONTENDERS_H_
#define HEED_LAB_BENCH_CONTENDERS_H_

#include <memory>
#include <string>

#include "lab/bench/bench.h"

namespace heed::lab {

class Contenders {
 public:
  virtual ~Contenders() = default;

  virtual void RunHeed(BenchPass pass) = 0;
  virtual void RunTorch(BenchPass pass) = 0;
  // Which implementation of attention LibTorch chooses: "flash" or "math".
  virtual std::string TorchPath() const = 0;
  // Useful floating-point operations of one run.
  virtual double Operations(BenchPass pass) const = 0;
};

std::unique_ptr<Contenders> MakeContenders(const BenchCase& c);

}  // namespace heed::lab

#endif  // HEED_LAB_BENCH_CONTENDERS_H_
