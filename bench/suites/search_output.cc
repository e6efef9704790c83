#include "bench/suites/search_output.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "bench/suites/output.h"
#include "lab/report/environment.h"
#include "lab/report/page.h"

namespace heed::lab {

std::string SearchSummary(const SearchResult& result, const SearchOptions& options) {
  const auto count = static_cast<double>(result.rows.size());
  const auto below = [&](double ratio) {
    const double share = result.ShareBelow(ratio);
    return fmt::format("{:.0f} below {} ({:.1f} %)", share * count, ratio, 100 * share);
  };
  return fmt::format(
      "{} calls drawn with seed {}, of at most {} MiB; LibTorch's time over heed's: geometric mean {:.2f}, {}, {}. {} of them "
      "were measured again.",
      result.rows.size(), options.seed, options.memory_mib, GeometricMeanRatio(result.rows), below(1), below(0.95),
      result.MeasuredAgain());
}

std::string TimedOn(const SearchOptions& options) {
  const Environment environment = ThisEnvironment();
  return fmt::format("heed {} and LibTorch {} on {} with {}; calls of {}.", environment.version, environment.libtorch,
                     environment.cpu, environment.simd_targets.front(),
                     options.threads == 1 ? "1 thread" : fmt::format("1 and {} threads", options.threads));
}

nlohmann::ordered_json SearchJson(const SearchResult& result, const SearchOptions& options) {
  return {{"seed", options.seed},
          {"seconds", options.seconds},
          {"search_memory", options.memory_mib},
          {"threads", options.threads},
          {"environment", ToJson(ThisEnvironment())},
          {"interrupted", result.interrupted},
          {"drawn", result.rows.size()},
          {"measured_again", result.MeasuredAgain()},
          {"geometric_mean", GeometricMeanRatio(result.rows)},
          {"shares_below", {{"1", result.ShareBelow(1)}, {"0.95", result.ShareBelow(0.95)}}},
          {"rows", BenchJson(result.rows)}};
}

Table SearchTable(const SearchResult& result, const SearchOptions& options) {
  Table table{
      "The worst ratios: LibTorch's time over heed's, minima of interleaved rounds, in milliseconds; percent of the FMA "
      "peak, or with a b of the bandwidth of reading",
      {"Ratio", "heed", "LibTorch", "heed, %", "LibTorch, %", "LibTorch's path", "Command"},
      {}};
  for (const BenchRow& row : result.rows) {
    if (static_cast<int64_t>(table.rows.size()) == options.worst) break;
    const auto share = [&row](double of_peak, double of_bandwidth) {
      return row.times_alone ? "-" : ShareText(of_peak, of_bandwidth);
    };
    table.rows.push_back({fmt::format("{:.2f}", row.ratio), MillisecondsText(row.heed_ms), MillisecondsText(row.torch_ms),
                          share(row.percent_of_peak, row.percent_of_bandwidth),
                          share(row.torch_percent_of_peak, row.torch_percent_of_bandwidth), PathText(row), CommandOf(row)});
  }
  return table;
}

Figure SearchFigure(const SearchResult& result) {
  LinePlot plot{"Percent of the calls", "LibTorch's time over heed's, at most", /*log_x=*/false, /*log_y=*/true, {}};
  for (const BenchRow& row : result.rows) {
    auto series = std::ranges::find(plot.series, row.pass, &Series::name);
    if (series == plot.series.end()) series = plot.series.insert(series, {row.pass, {}, {}, {}, {}});
    series->y.push_back(row.ratio);
  }
  for (Series& series : plot.series)
    for (std::size_t place = 1; place <= series.y.size(); ++place)
      series.x.push_back(100.0 * static_cast<double>(place) / static_cast<double>(series.y.size()));
  return {.name = "search",
          .title = fmt::format("{} calls drawn at random: {:.1f} % slower than LibTorch", result.rows.size(),
                               100 * result.ShareBelow(1)),
          .caption = "Above 1 heed is faster. LibTorch's side is the fastest of the ways in which the call can be written.",
          .command = {},
          .content = plot};
}

std::filesystem::path WriteSearch(const SearchResult& result, const SearchOptions& options,
                                  const std::filesystem::path& folder) {
  Page page("Calls drawn at random beside LibTorch", folder, CommandOf(options, folder), fmt::format("seed {}", options.seed));
  page.Say(SearchSummary(result, options));
  page.Say(TimedOn(options));
  page.Show(SearchFigure(result));
  page.Show(SearchTable(result, options));
  page.KeepJson("search.json", SearchJson(result, options));
  return page.Write();
}

}  // namespace heed::lab
