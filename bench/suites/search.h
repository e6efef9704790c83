// Calls drawn at random and timed beside LibTorch: a look for those where heed is slower (`heed bench --search`).
#ifndef HEED_BENCH_SUITES_SEARCH_H_
#define HEED_BENCH_SUITES_SEARCH_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "bench/suites/bench.h"
#include "bench/suites/random_call.h"
#include "lab/options/fields.h"

namespace heed::lab {

struct SearchOptions {
  double seconds = 0;  // to be given
  int64_t memory_mib = 2048;
  int64_t worst = 20;  // rows that are listed
  uint64_t seed = 0;
  int threads = 1;  // a call has 1 or so many
  bool quiet = true;
};

Fields FieldsOf(SearchOptions& options);
std::string CommandOf(const SearchOptions& options, const std::filesystem::path& folder);

struct SearchResult {
  std::vector<BenchRow> rows;  // all calls that were drawn, by ratio, the worst first
  bool interrupted = false;

  double ShareBelow(double ratio) const;  // of the rows
  int64_t MeasuredAgain() const;
};

// Two thirds of the time go to a first look at as many calls as there is time for, a few rounds each; the rest to the worst of
// them, which are measured again with more rounds, memory and shares of peak. What that finds takes the place of the first
// look, so that a row that was unlucky leaves the list. Ends early, with what is known, when the user asks for that.
SearchResult RunSearch(const SearchOptions& options);
// The same with another way to measure a row and another clock, in seconds.
using MeasureFunction = std::function<BenchRow(const CallCase&, const CallRounds&)>;
SearchResult RunSearch(const SearchOptions& options, const MeasureFunction& measure, const std::function<double()>& now);

}  // namespace heed::lab

#endif  // HEED_BENCH_SUITES_SEARCH_H_
