#include "lab/series/findings.h"

#include <algorithm>

#include <fmt/core.h>

#include "lab/runs/contender.h"
#include "lab/runs/contest_page.h"

namespace heed::lab {

std::string SeriesChoiceFinding(const SeriesResult& result) {
  const ContestResult& contest = result.contest;
  const std::vector<const Entry*> running = contest.InTheRunning();
  const std::string given = BudgetInWords(contest, result.options.seconds);
  if (running.size() == 1 && contest.entries.size() > 1) {
    return fmt::format("Of the models, after {} each, {} is ahead of all others.", given, running.front()->model.Phrase());
  }
  if (contest.entries.size() == 1) return {};
  return fmt::format("After {} each, it cannot be told which of {} is best.", given, Join(Running(contest)));
}

namespace {

constexpr double kTie = 0.05;            // of the lesser loss
constexpr std::size_t kMostColumns = 5;  // that are named

// "a loss of 0.1 nats and an accuracy of 0.98".
std::string ReachedBy(const SeriesResult& result, const SeriesBaseline& baseline) {
  std::vector<std::string> reached;
  for (const Column& column : result.told()) {
    const double value = column == result.loss() ? baseline.loss : baseline.accuracy;
    reached.push_back(column.measure.Phrase({value, value, value}));
  }
  return Join(reached);
}

std::string ReachedBy(const SeriesResult& result, const Contender& model) {
  std::vector<std::string> reached;
  for (const Column& column : result.told()) reached.push_back(column.measure.Phrase(result.scores().Over(model, column)));
  return Join(reached);
}

// "1.7 times as much as"; nothing to divide by has no factor.
std::string Factor(const Measure& measure, double loss, double by) {
  return by > 0 ? fmt::format("{:.3g} times as much as", loss / by) : fmt::format("{} more than", measure.Text(loss - by));
}

}  // namespace

std::string SeriesWorthFinding(const SeriesResult& result) {
  const SeriesBaseline& simple = BestOf(result.baselines);
  const Contender model = result.scores().Ranked(result.loss()).front();
  const Spread loss = result.scores().Over(model, result.loss());
  std::string verdict, caution;
  if (!simple.looks) caution = " That tells of these models and methods, not of what can be foretold.";
  if (loss.high < simple.loss && loss.mean <= (1 - kTie) * simple.loss) {
    verdict = "A model is worth it", caution = "";
  } else if (loss.low > simple.loss && simple.loss <= (1 - kTie) * loss.mean) {
    verdict = simple.looks ? "A model is not worth it" : fmt::format("Nothing beats {}", simple.Phrase());
  } else {
    verdict = simple.looks ? fmt::format("A model is hardly worth it, {} will do as well", simple.name)
                           : fmt::format("Nothing clearly beats {}", simple.Phrase());
  }
  return fmt::format("{}: the best, {}, has {}, {} {}, the best without a model, with {}.", verdict, model.Phrase(),
                     ReachedBy(result, model), Factor(result.loss().measure, loss.mean, simple.loss), simple.Phrase(),
                     ReachedBy(result, simple)) +
         caution;
}

std::string SeriesRangeFinding(const SeriesResult& result) {
  const std::vector<SeriesRange>& left = result.data.left;
  if (left.empty()) return {};
  std::vector<std::string> columns;
  for (std::size_t i = 0; i < std::min(kMostColumns, left.size()); ++i) {
    const SeriesRange& range = left[i];
    columns.push_back(
        fmt::format("{} ({:.4g} to {:.4g} there, {:.4g} to {:.4g} in the test part, {:.3g} % of whose values lie "
                    "outside)",
                    range.column, range.low, range.high, range.test_low, range.test_high, 100 * range.outside));
  }
  if (left.size() > kMostColumns) columns.push_back(fmt::format("{} more columns", left.size() - kMostColumns));
  return fmt::format("The test part leaves the range of the training part: {}.", Join(columns));
}

std::vector<Finding> SeriesConclusion(const SeriesResult& result) {
  return Answered({{"Is it worth a model?", SeriesWorthFinding(result)},
                   {"Which model?", SeriesChoiceFinding(result)},
                   {"How far are they apart?", TimeFinding(result.contest, result.options.seconds)},
                   {"Which positional encoding for attention?", SchemeFinding(result.contest)},
                   {"What would more training bring?", GainFinding(result.contest)},
                   {"And after equal steps?", StepsFinding(result.contest)},
                   {"Which learning rates?", RateFinding(result.contest)},
                   {"How fast?", PaceFinding(result.contest)},
                   {"Are the data alike in all parts?", SeriesRangeFinding(result)}});
}

}  // namespace heed::lab
