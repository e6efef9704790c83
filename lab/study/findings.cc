#include "lab/study/findings.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>

#include <fmt/core.h>

#include "lab/comparison/reachability.h"
#include "lab/depth/findings.h"
#include "lab/tasks/findings.h"

namespace heed::lab {
namespace {

constexpr std::size_t kLongest = std::size(kLengthMultiples) - 1;

std::string Signed(double value) { return fmt::format("{}{:.3f}", value < 0 ? "−" : "+", std::abs(value)); }

std::string Seeds(std::size_t count) { return count == 1 ? "one seed" : fmt::format("{} seeds", count); }

// How far b is behind a, and how sure that is.
std::string Behind(const ModelResult& a, const ModelResult& b) {
  const Gap gap = GapBetween(a, b);
  const std::string next = b.model.Phrase();
  if (a.runs.size() == 1) return fmt::format("{} follows {:.3f} behind, with one seed each", next, gap.loss.mean);
  if (gap.agreed) {
    return fmt::format("{} follows {:.3f} behind ({:.3f} to {:.3f} seed by seed)", next, gap.loss.mean, gap.loss.low,
                       gap.loss.high);
  }
  return fmt::format("{} cannot be told apart from it: {:.3f} behind on average, but {} to {} seed by seed", next,
                     gap.loss.mean, Signed(gap.loss.low), Signed(gap.loss.high));
}

const ModelResult* FindScheme(const std::vector<ModelResult>& models, const std::string& position) {
  const auto found = std::find_if(models.begin(), models.end(),
                                  [&](const auto& m) { return m.model.attends() && m.model.position == position; });
  return found == models.end() ? nullptr : &*found;
}

// How often a curve changes its sign.
int64_t SignChanges(const Series& series) {
  int64_t changes = 0;
  double last = 0;
  for (const double y : series.y) {
    if (y == 0) continue;
    if (y * last < 0) ++changes;
    last = y;
  }
  return changes;
}

}  // namespace

std::string RankingFinding(const std::vector<ModelResult>& models) {
  const std::vector<const ModelResult*> ranked = Ranked(models);
  if (ranked.size() < 2) return {};
  const ModelResult &best = *ranked.front(), &last = *ranked.back();
  std::string text = fmt::format("{} is best with {} nats per character over {}; {}.", Sentence(best.model.Phrase()),
                                 Describe(best.Loss()), Seeds(best.runs.size()), Behind(best, *ranked[1]));
  if (ranked.size() > 2) {
    text += fmt::format(" Of these {}, {} is last with {}, {:.3f} behind.", ranked.size(), last.model.Phrase(),
                        Describe(last.Loss()), GapBetween(best, last).loss.mean);
  }
  return text;
}

std::string OrderFinding(const std::vector<ModelResult>& models, const Baselines& baselines) {
  const ModelResult* none = FindScheme(models, "none");
  if (none == nullptr) return {};
  std::string text = fmt::format(
      "At hidden characters, attention without positions reaches {} nats; the frequencies of characters "
      "alone give {:.3f}.",
      Describe(none->Loss()), baselines.frequencies);
  const std::vector<ModelResult> schemes = Attending(models);
  const ModelResult& best = *Ranked(schemes).front();
  if (best.model.position == "none") return text + " No scheme does better.";
  const double gained = baselines.frequencies - best.Loss().mean, without = baselines.frequencies - none->Loss().mean;
  text += fmt::format(" {} reaches {}.", Sentence(best.model.Phrase()), Describe(best.Loss()));
  if (gained <= 0.05) return text + " No scheme is far from the frequencies yet: more steps are needed to tell them apart.";
  const double share = without / gained;
  if (share < 0.5) {
    return text +
           fmt::format(
               " Without order it fails: it gains {:.0f} % of what it gains with positions, as the neighbours of a hidden "
               "character look to it like any other character in the window.",
               100 * std::max(share, 0.0));
  }
  return text + fmt::format(" Even without order it gains {:.0f} % of what it gains with positions.", 100 * share);
}

std::string LengthFinding(const std::vector<ModelResult>& models, const StudyOptions& options) {
  const std::vector<ModelResult> schemes = Attending(models);
  const std::vector<const ModelResult*> ranked = Ranked(schemes, kLongest);
  if (ranked.empty()) return {};
  const int64_t longest = kLengthMultiples[kLongest] * options.context;
  std::vector<std::string> changes, ended;
  for (const ModelResult* scheme : ranked) {
    const std::string scheme_name = scheme->model.position == "none" ? "no positions" : SchemeLabel(scheme->model.position);
    changes.push_back(fmt::format("{} ({})", Signed(scheme->Loss(kLongest).mean - scheme->Loss(0).mean), scheme_name));
  }
  for (const ModelResult& scheme : schemes) {
    if (!scheme.Reaches(kLongest)) ended.push_back(SchemeLabel(scheme.model.position));
  }
  std::string text = fmt::format("Trained at {} characters and evaluated at {}, attention's loss changes by {}.",
                                 options.context, longest, Join(changes));
  if (!ended.empty()) text += fmt::format(" The table of {} positions ends at {} characters.", Join(ended), options.context);
  return text + fmt::format(" At {} characters {} is best with {}.", longest, ranked.front()->model.Phrase(),
                            Describe(ranked.front()->Loss(kLongest)));
}

std::string SpeedFinding(const std::vector<ModelResult>& models) {
  if (models.size() < 2) return {};
  const auto [slow, fast] = std::minmax_element(models.begin(), models.end(), [](const auto& a, const auto& b) {
    return a.TokensPerSecond().mean < b.TokensPerSecond().mean;
  });
  const double slowest = slow->TokensPerSecond().mean, fastest = fast->TokensPerSecond().mean;
  return fmt::format(
      "In training on one thread, {} is the fastest with {:.0f} thousand characters per second and {} the slowest "
      "with {:.0f} thousand: a factor of {:.1f}.",
      fast->model.Phrase(), fastest / 1000, slow->model.Phrase(), slowest / 1000, fastest / slowest);
}

std::string PositionsFinding(const RotationCheck& check, const std::vector<Figure>& figures) {
  std::string text;
  const auto* plot = figures.empty() ? nullptr : std::get_if<LinePlot>(&figures.front().content);
  if (plot != nullptr && plot->series.size() > 1) {
    const Series &first = plot->series.front(), &last = plot->series.back();
    text = fmt::format("Over {} positions, {} changes its sign {} times, {} {} times. ", first.y.size(), first.name,
                       SignChanges(first), last.name, SignChanges(last));
  }
  return text + fmt::format(
                    "For all {} pairs of a position and a shift, forwards and backwards, the row turned by the shift's "
                    "angles is the shifted row within {:.1e}{}; the linear map that least squares finds in the table alone "
                    "differs from that rotation by {:.1e} at most.",
                    check.shifts, check.rotation_error, check.Passed() ? "" : ", which is more than rounding explains",
                    check.least_squares_error);
}

std::string ComparisonFinding(const Comparison& comparison) {
  const int64_t counted =
      std::count_if(comparison.rows.begin(), comparison.rows.end(), [](const auto& row) { return row.counted; });
  std::string text = fmt::format(
      "Counted on running layers at {} lengths, operations, sequential steps and paths differ from "
      "the closed formulas by {} at most, over {} rows.",
      comparison.options.lengths.size(), comparison.largest_error, counted);
  const int64_t longest = comparison.options.lengths.back();
  std::vector<std::string> paths, times;
  for (const ComparisonRow& row : comparison.rows) {
    if (row.length != longest) continue;
    const int64_t hops = row.numbers().path_length;
    if (hops != kNever) paths.push_back(fmt::format("{} {} in {}", hops, hops == 1 ? "step" : "steps", row.layer->name()));
    const double seconds = row.best_seconds();
    if (seconds > 0) times.push_back(fmt::format("{:.2g} ms ({})", 1e3 * seconds, row.layer->name()));
  }
  text += fmt::format(" At {} tokens, what the first one says reaches the last in {}.", longest, Join(paths));
  if (!times.empty()) text += fmt::format(" One forward pass of width {} takes {}.", comparison.options.width, Join(times));
  std::vector<std::string> always, from;
  for (const Crossover& crossover : comparison.crossovers) {
    if (crossover.whole == 1) always.push_back(crossover.than);
    if (crossover.whole > 1) from.push_back(fmt::format("{} from {} tokens on", crossover.than, crossover.whole));
  }
  if (!always.empty()) text += fmt::format(" Self-attention needs more multiply-adds than {} at any length.", Join(always));
  if (!from.empty()) text += fmt::format(" Self-attention needs as many multiply-adds as {}.", Join(from));
  return text;
}

std::vector<Finding> Conclusion(const StudyResult& result) {
  const std::string windows = fmt::format("in windows of {} characters", result.options.context);
  std::vector<Finding> findings = {
      {"Which encoder, to predict the next character of this text " + windows + "?",
       RankingFinding(OnePerEncoder(result.causal))},
      {"Which notion of order for attention there?", RankingFinding(Attending(result.causal))},
      {"Which encoder, to fill in hidden characters?", RankingFinding(OnePerEncoder(result.masked))},
      {"Which notion of order for attention there?", RankingFinding(Attending(result.masked))},
      {"Does attention need to be told the order?", OrderFinding(result.masked, result.baselines)},
      {"And in longer windows than in training?", LengthFinding(result.causal, result.options)},
      {"How fast?", SpeedFinding(result.causal)},
      {"How deep?", result.depth ? DepthConclusion(*result.depth) : ""},
      {"Where does another encoder beat attention, and where not?", result.tasks ? TasksConclusion(*result.tasks) : ""},
  };
  std::erase_if(findings, [](const Finding& finding) { return finding.answer.empty(); });
  return findings;
}

}  // namespace heed::lab
