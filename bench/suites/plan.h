// How a call would spread over many threads, without computing it (`heed bench --plan`).
#ifndef HEED_BENCH_SUITES_PLAN_H_
#define HEED_BENCH_SUITES_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/suites/shape.h"
#include "lab/report/page.h"

namespace heed::lab {

// What a thread is taken to do. Ratios of the two matter to balance, sizes to predicted times.
struct ThreadRates {
  double gflops = 100;  // useful floating-point operations per nanosecond
  double gbps = 10;     // bytes per nanosecond to and from memory
};

Fields FieldsOf(ThreadRates& rates);

struct StepRow {
  std::string name;
  int64_t workers = 0, tasks = 0, pairs = 0, bytes_read = 0, bytes_written = 0;
  double seconds = 0;  // until its last worker has ended
  double busy = 0;     // seconds of all its workers together
};

struct PlanRow {
  std::string shape, option, pass;
  int threads = 1;
  std::vector<StepRow> steps;
  double multiply_adds = 0;
  int64_t workspace_bytes = 0;
  double seconds = 0;
  // The share of the ideal time that is reached: seconds of one thread / (threads * seconds).
  double balance = 0;
  std::string limit;  // of the balance, "-" where it is above 0.95
};

// One, two, four .. 128.
std::vector<int> PlannedThreads();
// A row for each of these. A task takes as long as its products or as its bytes do, whichever is longer; steps follow each
// other. Throws InvalidArgument where the engine refuses the call.
std::vector<PlanRow> PlanCall(const ShapeCall& call, const ThreadRates& rates);

nlohmann::ordered_json PlanJson(const std::vector<PlanRow>& rows);
Table PlanTable(const std::vector<PlanRow>& rows, const ThreadRates& rates);

}  // namespace heed::lab

#endif  // HEED_BENCH_SUITES_PLAN_H_
