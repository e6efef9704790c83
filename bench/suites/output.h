// Rows of a bench, and what a search found, as text, as JSON, as a figure and as a page.
#ifndef HEED_BENCH_SUITES_OUTPUT_H_
#define HEED_BENCH_SUITES_OUTPUT_H_

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/suites/bench.h"
#include "bench/suites/search.h"
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

// How many calls, how they were drawn, their mean ratio and how many are below 1 and below 0.95; on what they were timed.
std::string SearchSummary(const SearchResult& result, const SearchOptions& options);
std::string TimedOn(const SearchOptions& options);

nlohmann::ordered_json SearchJson(const SearchResult& result, const SearchOptions& options);
// The listed rows, a line each.
Table SearchTable(const SearchResult& result, const SearchOptions& options);
// Which share of the calls has at most a ratio, a line a pass.
Figure SearchFigure(const SearchResult& result);

// A page with figure and table, whose path it returns, and search.json beside it. FileError.
std::filesystem::path WriteSearch(const SearchResult& result, const SearchOptions& options,
                                  const std::filesystem::path& folder);

}  // namespace heed::lab

#endif  // HEED_BENCH_SUITES_OUTPUT_H_
