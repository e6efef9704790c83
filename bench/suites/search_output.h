// What a search found, as text, as JSON, as a figure and as a page.
#ifndef HEED_BENCH_SUITES_SEARCH_OUTPUT_H_
#define HEED_BENCH_SUITES_SEARCH_OUTPUT_H_

#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

#include "bench/suites/search.h"
#include "lab/report/page.h"

namespace heed::lab {

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

#endif  // HEED_BENCH_SUITES_SEARCH_OUTPUT_H_
