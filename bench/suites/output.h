// Rows of a bench as JSON, as a figure and as a page.
#ifndef HEED_BENCH_SUITES_OUTPUT_H_
#define HEED_BENCH_SUITES_OUTPUT_H_

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/suites/bench.h"
#include "lab/report/page.h"

namespace heed::lab {

double GeometricMeanRatio(const std::vector<BenchRow>& rows);

// Of the FMA peak; of the bandwidth, marked by a b, where memory is the limit.
std::string ShareText(double of_peak, double of_bandwidth);

// With as many digits as tell two calls apart.
std::string MillisecondsText(double milliseconds);
// LibTorch's path and the way in which the call is written for it: "flash, folded groups".
std::string PathText(const BenchRow& row);

nlohmann::ordered_json BenchJson(const std::vector<BenchRow>& rows);
// A line a row.
Table BenchTable(const std::vector<BenchRow>& rows);
// Ratio to LibTorch against the length, and the geometric mean of all rows in the title.
Figure BenchFigure(const std::vector<BenchRow>& rows);

// A page with figure, table and the command that made it, whose path it returns, and bench.json beside it. FileError.
std::filesystem::path WriteBench(const std::vector<BenchRow>& rows, const std::string& command,
                                 const std::filesystem::path& folder);

}  // namespace heed::lab

#endif  // HEED_BENCH_SUITES_OUTPUT_H_
