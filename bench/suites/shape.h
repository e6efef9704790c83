// A call of one's own shape for `heed bench`: planned without arrays, or measured by the engine alone.
#ifndef HEED_BENCH_SUITES_SHAPE_H_
#define HEED_BENCH_SUITES_SHAPE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "bench/suites/bench.h"
#include "heed/attention.h"
#include "lab/options/fields.h"

namespace heed::lab {

struct ShapeOptions {
  std::vector<int64_t> lengths;                 // of keys; a call for each
  int64_t queries = 0;                          // 0: as many as keys
  int64_t batch = 1, heads = 1, key_heads = 0;  // key_heads 0: as many as heads
  int64_t width = 64;
  bool causal = false;
  int64_t window = 0;  // keys that a query sees, its own the last of them; 0: no window
  std::string type = "float32";
  std::string pass = "both";
};

Fields FieldsOf(ShapeOptions& options);

// One call of the options.
struct ShapeCall {
  Shape shape;
  Attention attention;
  BenchType type = BenchType::kFloat;
  bool backward = false;

  std::string OptionText() const;  // "causal, window 1024", "full", "full, bfloat16"
  std::string PassText() const { return backward ? "backward" : "forward"; }
};

// The calls of all lengths and passes in this order; throws InvalidArgument where heads are no multiple of key heads.
std::vector<ShapeCall> CallsOf(const ShapeOptions& options);

}  // namespace heed::lab

#endif  // HEED_BENCH_SUITES_SHAPE_H_
