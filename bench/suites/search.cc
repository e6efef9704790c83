#include "bench/suites/search.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <stdexcept>

#include <fmt/core.h>

#include "lab/report/progress.h"
#include "lab/training/interrupt.h"

namespace heed::lab {
namespace {

constexpr double kFirstShare = 2.0 / 3;  // of the time
constexpr double kDoubtful = 1.05;       // a first look may be wrong by so much: below it a row is measured again

class Search {
 public:
  Search(const SearchOptions& options, const MeasureFunction& measure, const std::function<double()>& now)
      : options_(options),
        measure_(measure),
        now_(now),
        begin_(now()),
        progress_("search, seconds", std::max<int64_t>(1, std::llround(options.seconds)), options.quiet) {}

  SearchResult Run() {
    Look();
    LookAgain();
    result_.interrupted = Interrupted();
    return result_;
  }

 private:
  double Elapsed() const { return now_() - begin_; }
  void Look() {
    Random random(options_.seed);
    const DrawLimits limits{.bytes = static_cast<double>(options_.memory_mib) * (1 << 20), .threads = options_.threads};
    const CallRounds rounds{.rounds = 3, .seconds = std::clamp(options_.seconds / 400, 0.01, 0.25), .times_alone = true};
    while (!Interrupted() && Elapsed() < kFirstShare * options_.seconds) {
      result_.rows.push_back(Measure(DrawCall(random, limits), rounds));
      Show();
    }
  }

  void LookAgain() {
    // Enough for those that are listed and as many that leave the list.
    const double share = (1 - kFirstShare) * options_.seconds / (2 * static_cast<double>(options_.worst));
    const CallRounds rounds{.rounds = 7, .seconds = std::clamp(share, 0.05, 3.0)};
    for (auto row = NextInDoubt(); row != result_.rows.end(); row = NextInDoubt()) {
      if (Interrupted() || Elapsed() >= options_.seconds) return;
      *row = Measure(ParseCase(row->call, "search"), rounds);
      Show();
    }
  }

  BenchRow Measure(const CallCase& c, const CallRounds& rounds) const {
    try {
      BenchRow row = measure_(c, rounds);
      row.suite = "search";
      return row;
    } catch (const std::exception& error) {
      throw std::runtime_error(fmt::format("{}: {}", TextOf(c), error.what()));
    }
  }

  void Show() {
    double worst = result_.rows.front().ratio;
    for (const BenchRow& row : result_.rows) worst = std::min(worst, row.ratio);
    progress_.Update(std::min(std::llround(Elapsed()), std::llround(options_.seconds)),
                     fmt::format("{} calls, worst {:.2f}", result_.rows.size(), worst));
  }

  // Sorts, and tells which row is to be measured next: the worst of those that are listed or in doubt.
  std::vector<BenchRow>::iterator NextInDoubt() {
    std::vector<BenchRow>& rows = result_.rows;
    // Of equal ones those that were measured again stay in front, where the list holds them.
    std::ranges::sort(rows, {}, [](const BenchRow& row) { return std::pair(row.ratio, row.times_alone); });
    const auto listed = std::min(options_.worst, static_cast<int64_t>(rows.size()));
    return std::ranges::find_if(
        rows, [&](const BenchRow& row) { return row.times_alone && (row.ratio < kDoubtful || &row - rows.data() < listed); });
  }

  const SearchOptions& options_;
  const MeasureFunction& measure_;
  const std::function<double()>& now_;
  double begin_;
  SearchResult result_;
  Progress progress_;
};

}  // namespace

Fields FieldsOf(SearchOptions& options) {
  return {Number("search", options.seconds, 0, 1e6,
                 "Draw calls at random for so many seconds, and list those with the worst ratios"),
          Whole("search_memory", &options.memory_mib, 64, 1 << 20, "MiB that a drawn call may need, LibTorch's side included"),
          Whole("worst", &options.worst, 1, 1000, "Rows that a search lists"),
          Seed(options.seed),
          {.name = "threads", .value = &options.threads, .low = 1, .high = 1024, .source = Field::Source::kCommon}};
}

std::string CommandOf(const SearchOptions& options, const std::filesystem::path& folder) {
  SearchOptions own = options, defaults;
  defaults.threads = 0;  // without --threads a search has as many as the machine it runs on
  return CommandLine("bench", "", "", FieldsOf(own), FieldsOf(defaults), folder);
}

double SearchResult::ShareBelow(double ratio) const {
  const auto below = std::ranges::count_if(rows, [ratio](const BenchRow& row) { return row.ratio < ratio; });
  return rows.empty() ? 0 : static_cast<double>(below) / static_cast<double>(rows.size());
}

int64_t SearchResult::MeasuredAgain() const { return std::ranges::count(rows, false, &BenchRow::times_alone); }

SearchResult RunSearch(const SearchOptions& options, const MeasureFunction& measure, const std::function<double()>& now) {
  return Search(options, measure, now).Run();
}

SearchResult RunSearch(const SearchOptions& options) {
  return RunSearch(options, &MeasureCall,
                   [] { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); });
}

}  // namespace heed::lab
