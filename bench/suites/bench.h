// Speed and memory of heed beside LibTorch's scaled_dot_product_attention and the FMA peak of this core, in one process.
#ifndef HEED_BENCH_SUITES_BENCH_H_
#define HEED_BENCH_SUITES_BENCH_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "bench/suites/call_case.h"
#include "lab/options/fields.h"

namespace heed::lab {

struct BenchCase {
  std::string suite, option;  // option: what is not shape and type, in words, as "causal, dropout 0.1"
  // Of a training step the sizes and the dropout of its attention. Of 0 threads: on those of the run. A pass with its backward
  // is measured forward alone too.
  CallCase call;
};

// The names of the suites, and the cases of one of them or of "all"; throws InvalidArgument that lists them.
std::vector<std::string> BenchSuites();
std::vector<BenchCase> CasesOf(const std::string& suite);

struct BenchRow {
  std::string suite, option, shape, pass;  // pass: "forward", "forward+backward", "training step"
  int threads = 0;
  double heed_ms = 0, heed_median_ms = 0;  // minimum and median over rounds
  double torch_ms = 0, torch_median_ms = 0;
  std::string torch_path;      // "flash", "math": the implementation that LibTorch chooses
  std::string torch_way;       // how the call is written for it, see TorchWay::Name
  std::string call;            // what --case takes for this row alone; empty for training steps
  double ratio = 0;            // torch_ms / heed_ms
  double percent_of_peak = 0;  // heed: useful operations per second against threads * peak
  double torch_percent_of_peak = 0;
  double peak_gflops = 0;  // of one core in the case's precision, measured between the rounds
  // Bytes of keys and values per second against what as many threads read at most, measured between the rounds; 0 where
  // arithmetic is the limit.
  double percent_of_bandwidth = 0, torch_percent_of_bandwidth = 0;
  double heed_mib = 0, torch_mib = 0;  // growth of the process during one call; NaN where Linux does not tell
  int64_t length = 0, head_dim = 0;
  bool times_alone = false;  // see CallRounds
};

struct BenchOptions {
  std::string suite = "all";
  int threads = 1;
  int rounds = 5;
  double seconds = 1.0;  // per case and pass, at least
  bool quiet = true;
};

Fields FieldsOf(BenchOptions& options);
// The command that measures the same, in this folder.
std::string CommandOf(const BenchOptions& options, const std::filesystem::path& folder);

// What is measured of a case.
std::vector<BenchPass> PassesOf(const BenchCase& c);

struct CallRounds {
  int rounds = 5;        // at least
  double seconds = 1.0;  // in all, at least
  // Neither memory, which is then NaN, nor peak and bandwidth, whose shares are then 0: rounds are as short as the calls.
  bool times_alone = false;
};

// One row, of suite "case", on as many threads as the case has.
BenchRow MeasureCall(const CallCase& c, const CallRounds& rounds);
// "heed bench --case '...'", of a row that has a call.
std::string CommandOf(const BenchRow& row);

// One row: memory first, then the times.
BenchRow MeasureCase(const BenchCase& c, BenchPass pass, const BenchOptions& options);

// Calls `done` with each row as it is measured. Throws Interruption between cases.
std::vector<BenchRow> RunBench(const BenchOptions& options, const std::function<void(const BenchRow&)>& done);

}  // namespace heed::lab

#endif  // HEED_BENCH_SUITES_BENCH_H_
