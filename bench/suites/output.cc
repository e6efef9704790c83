#include "bench/suites/output.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "lab/report/environment.h"
#include "lab/report/page.h"

namespace heed::lab {
namespace {

std::string SeriesName(const BenchRow& row) {
  return fmt::format("{}{}, d{}, {}{}", row.suite, row.option == "plain" ? "" : ": " + row.option, row.head_dim, row.pass,
                     row.threads > 1 ? fmt::format(", {} threads", row.threads) : "");
}

nlohmann::ordered_json ToJson(const BenchRow& row) {
  return {{"case", row.suite + ": " + row.option},
          {"shape", row.shape},
          {"pass", row.pass},
          {"threads", row.threads},
          {"heed_ms", row.heed_ms},
          {"heed_median_ms", row.heed_median_ms},
          {"torch_ms", row.torch_ms},
          {"torch_median_ms", row.torch_median_ms},
          {"torch_path", row.torch_path},
          {"torch_way", row.torch_way},
          {"ratio", row.ratio},
          {"percent_of_peak", row.percent_of_peak},
          {"torch_percent_of_peak", row.torch_percent_of_peak},
          {"peak_gflops", row.peak_gflops},
          {"percent_of_bandwidth", row.percent_of_bandwidth},
          {"torch_percent_of_bandwidth", row.torch_percent_of_bandwidth},
          {"heed_mib", row.heed_mib},
          {"torch_mib", row.torch_mib},
          {"call", row.call},
          {"times_alone", row.times_alone}};
}

}  // namespace

double GeometricMeanRatio(const std::vector<BenchRow>& rows) {
  double sum = 0;
  for (const BenchRow& row : rows) sum += std::log(row.ratio);
  return rows.empty() ? 0 : std::exp(sum / static_cast<double>(rows.size()));
}

std::string ShareText(double of_peak, double of_bandwidth) {
  return of_bandwidth > 0 ? fmt::format("{:.1f}b", of_bandwidth) : fmt::format("{:.1f}", of_peak);
}

std::string MillisecondsText(double milliseconds) {
  return milliseconds < 1 ? fmt::format("{:.4f}", milliseconds) : fmt::format("{:.2f}", milliseconds);
}

std::string PathText(const BenchRow& row) {
  return row.torch_way.empty() ? row.torch_path : row.torch_path + ", " + row.torch_way;
}

nlohmann::ordered_json BenchJson(const std::vector<BenchRow>& rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const BenchRow& row : rows) list.push_back(ToJson(row));
  return list;
}

Table BenchTable(const std::vector<BenchRow>& rows) {
  Table table{
      "Minima of interleaved rounds, in milliseconds; ratio: LibTorch's time over heed's; percent of the FMA peak, or with a b "
      "of the bandwidth of reading; growth of the process in one call, in MiB",
      {"Case", "Shape", "Pass", "Threads", "heed", "LibTorch", "Ratio", "heed, %", "LibTorch, %", "heed, MiB", "LibTorch, MiB",
       "LibTorch's path"},
      {}};
  const auto text = [](double value, int digits) { return fmt::format("{:.{}f}", value, digits); };
  for (const BenchRow& row : rows) {
    table.rows.push_back({row.suite + ": " + row.option, row.shape, row.pass, std::to_string(row.threads),
                          MillisecondsText(row.heed_ms), MillisecondsText(row.torch_ms), text(row.ratio, 2),
                          ShareText(row.percent_of_peak, row.percent_of_bandwidth),
                          ShareText(row.torch_percent_of_peak, row.torch_percent_of_bandwidth), text(row.heed_mib, 1),
                          text(row.torch_mib, 1), PathText(row)});
  }
  return table;
}

Figure BenchFigure(const std::vector<BenchRow>& rows) {
  LinePlot plot{"Sequence length n", "LibTorch's time over heed's", /*log_x=*/true, /*log_y=*/true, {}};
  for (const BenchRow& row : rows) {
    const std::string name = SeriesName(row);
    auto series = std::ranges::find(plot.series, name, &Series::name);
    if (series == plot.series.end()) series = plot.series.insert(series, {name, {}, {}, {}, {}});
    series->x.push_back(static_cast<double>(row.length));
    series->y.push_back(row.ratio);
  }
  return {.name = "bench",
          .title = fmt::format("heed beside LibTorch: {:.2f} times as fast", GeometricMeanRatio(rows)),
          .caption = "Above 1 heed is faster; the title has the geometric mean. Minima of interleaved rounds in one process.",
          .command = {},
          .content = plot};
}

std::filesystem::path WriteBench(const std::vector<BenchRow>& rows, const std::string& command,
                                 const std::filesystem::path& folder) {
  const Environment environment = ThisEnvironment();
  Page page("Speed and memory beside LibTorch", folder, command, {});
  page.Say(fmt::format("heed {} and LibTorch {} on {} with {}, in one process and in turn. One core does {:.1f} GFLOP/s.",
                       environment.version, environment.libtorch, environment.cpu, environment.simd_targets.front(),
                       rows.front().peak_gflops));
  page.Show(BenchFigure(rows));
  page.Show(BenchTable(rows));
  page.KeepJson("bench.json", BenchJson(rows));
  return page.Write();
}

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
