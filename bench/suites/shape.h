// Calls of one's own shape for `heed bench`: planned without arrays, or measured by the engine alone, however long they take.
#ifndef HEED_BENCH_SUITES_SHAPE_H_
#define HEED_BENCH_SUITES_SHAPE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/suites/call_case.h"
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

struct ShapeRow {
  std::string shape, option, pass;
  int threads = 1;
  int64_t runs = 0;
  double ms = 0, median_ms = 0;  // minimum and median over runs
  double gflops = 0;             // useful operations in the shortest run
  double peak_gflops = 0;        // of one core in the type of computation, measured beside the runs
  double percent_of_peak = 0;    // of all threads
  double array_mib = 0;          // of the arrays of the call
  double resident_mib = 0;       // of the process at most, arrays and code included; NaN where Linux does not tell
};

struct ShapeRuns {
  int threads = 1, rounds = 5;
  double seconds = 1.0;  // no further run is begun after so many
  uint64_t seed = 0;
  bool quiet = true;
};

// Calls `done` with each row as it is measured. Shows progress within a call. Throws Interruption, within a call too.
std::vector<ShapeRow> RunShapes(const std::vector<ShapeCall>& calls, const ShapeRuns& runs,
                                const std::function<void(const ShapeRow&)>& done);

nlohmann::ordered_json ShapeJson(const std::vector<ShapeRow>& rows);

}  // namespace heed::lab

#endif  // HEED_BENCH_SUITES_SHAPE_H_
