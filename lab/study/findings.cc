#include "lab/study/findings.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "lab/depth/findings.h"
#include "lab/tasks/findings.h"

namespace heed::lab {
namespace {

std::string Signed(double value) { return fmt::format("{}{:.3f}", value < 0 ? "−" : "+", std::abs(value)); }

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

std::string EncoderFinding(const Measurements& measured) {
  const Column& loss = measured.ColumnOf("loss");
  return RankingFinding(measured, {loss}, measured.OnePerEncoder(loss));
}

std::string AttentionFinding(const Measurements& measured) {
  return RankingFinding(measured, {measured.ColumnOf("loss")}, Attending(measured.models()));
}

std::string OrderFinding(const Measurements& measured, const Baselines& baselines) {
  const Column& loss = measured.ColumnOf("loss");
  const Models schemes = Attending(measured.models());
  const auto none = std::ranges::find(schemes, "none", &Contender::position);
  if (none == schemes.end()) return {};
  const auto describe = [&](const Contender& model) { return loss.measure.Text(measured.Over(model, loss)); };
  std::string text = fmt::format(
      "At hidden characters, attention without positions reaches {} nats; the frequencies of characters "
      "alone give {:.3f}.",
      describe(*none), baselines.frequencies);
  const SizedContender best = measured.Ranked(loss, schemes).front();
  if (best.position == "none") return text + " No scheme does better.";
  const double gained = baselines.frequencies - measured.Over(best, loss).mean;
  const double without = baselines.frequencies - measured.Over(*none, loss).mean;
  text += fmt::format(" {} reaches {}.", Sentence(best.Phrase()), describe(best));
  if (gained <= 0.05) return text + " No scheme is far from the frequencies yet: more steps are needed to tell them apart.";
  const double share = without / gained;
  if (share < 0.5) {
    return text + fmt::format(
                      " Without positions it fails: its gain over the frequencies is {:.0f} % of that of the best, as the "
                      "neighbours of a "
                      "hidden character look to it like any other character in the window.",
                      100 * std::max(share, 0.0));
  }
  return text +
         fmt::format(" Even without positions its gain over the frequencies is {:.0f} % of that of the best.", 100 * share);
}

std::string LengthFinding(const Measurements& measured) {
  const std::vector<Column> losses = measured.ColumnsOf("loss");
  const Column &trained = losses.front(), &longest = losses.back();
  const Models schemes = Attending(measured.models()), ranked = measured.Ranked(longest, schemes);
  if (ranked.empty()) return {};
  std::vector<std::string> changes, ended;
  for (const Contender& scheme : ranked) {
    const double change = measured.Over(scheme, longest).mean - measured.Over(scheme, trained).mean;
    changes.push_back(
        fmt::format("{} ({})", Signed(change), scheme.position == "none" ? "no positions" : SchemeLabel(scheme.position)));
  }
  for (const Contender& scheme : schemes) {
    if (!measured.Reaches(scheme, longest)) ended.push_back(SchemeLabel(scheme.position));
  }
  std::string text = fmt::format("Trained at {} characters and evaluated at {}, attention's loss changes by {}.", trained.at,
                                 longest.at, Join(changes));
  if (!ended.empty()) text += fmt::format(" The table of {} positions ends at {} characters.", Join(ended), trained.at);
  return text + fmt::format(" At {} characters {} is best with {}.", longest.at, ranked.front().Phrase(),
                            longest.measure.Text(measured.Over(ranked.front(), longest)));
}

std::string SpeedFinding(const Measurements& measured) {
  const Column& speed = measured.ColumnOf("tokens_per_second");
  const Models ranked = measured.Ranked(speed);
  if (ranked.size() < 2) return {};
  const double fastest = measured.Over(ranked.front(), speed).mean, slowest = measured.Over(ranked.back(), speed).mean;
  return fmt::format(
      "In training on one thread, {} is the fastest with {:.0f} thousand characters per second and {} the slowest "
      "with {:.0f} thousand: a factor of {:.1f}.",
      ranked.front().Phrase(), fastest / 1000, ranked.back().Phrase(), slowest / 1000, fastest / slowest);
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

std::vector<Finding> Conclusion(const StudyResult& result) {
  const Measurements &causal = result.Of(Objective::kCausal), &masked = result.Of(Objective::kMasked);
  const std::string windows = fmt::format("in windows of {} characters", result.options.context);
  return Answered(
      {{"Which encoder, to predict the next character of this text " + windows + "?", EncoderFinding(causal)},
       {"Which positional encoding for attention there?", AttentionFinding(causal)},
       {"Which encoder, to fill in hidden characters?", EncoderFinding(masked)},
       {"Which positional encoding for attention there?", AttentionFinding(masked)},
       {"Does attention need to be told the order?", OrderFinding(masked, result.baselines)},
       {"And in longer windows than in training?", LengthFinding(causal)},
       {"How fast?", SpeedFinding(causal)},
       {"How deep?", result.depth ? DepthConclusion(*result.depth) : ""},
       {"Where does another encoder beat attention, and where not?", result.tasks ? TasksConclusion(*result.tasks) : ""}});
}

}  // namespace heed::lab
