// heed's attention at shapes of one's own, however long a call takes (`heed bench --n`).
#ifndef HEED_BENCH_SUITES_SHAPE_BENCH_H_
#define HEED_BENCH_SUITES_SHAPE_BENCH_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/suites/shape.h"

namespace heed::lab {

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

#endif  // HEED_BENCH_SUITES_SHAPE_BENCH_H_
