#include "lab/runs/contest_page.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/core.h>

#include "lab/runs/outlook.h"

namespace heed::lab {
namespace {

constexpr double kAsFast = 1.1;  // a pilot's second tells no finer on a machine that others share

const Measure& LossOf(const ContestResult& result) { return result.at_time.ColumnOf("loss").measure; }

const SizedContender& ModelOf(const ContestResult& result, const Judged& judged) {
  return result.entries[judged.contender].model;
}

// Those of one standing, each as `tell` has it.
template <class Tell>
std::vector<std::string> Told(const ContestResult& result, const std::vector<Judged>& verdict, Standing standing, Tell tell) {
  std::vector<std::string> told;
  for (const Judged& judged : verdict) {
    if (judged.standing == standing) told.push_back(tell(ModelOf(result, judged), judged));
  }
  return told;
}

std::string RangeText(const Measure& measure, const Interval& interval) {
  if (!std::isfinite(interval.low)) return "n/a";
  return fmt::format("{} to {}", measure.Text(interval.low), measure.Text(interval.high));
}

// "LSTM", "GRU (tied)".
std::string NameOf(const ContestResult& result, const Judged& judged) {
  const std::string label = ModelOf(result, judged).Label();
  return judged.standing == Standing::kBehind ? label : fmt::format("{} ({})", label, ToString(judged.standing));
}

std::string NumberText(const Measure& measure, double value) {
  return std::isfinite(value) ? measure.Text(value) : std::string("n/a");
}

std::string Milliseconds(double seconds) { return fmt::format("{:.3g} ms", 1000 * seconds); }

}  // namespace

std::string BudgetInWords(const ContestResult& result, double seconds) {
  if (result.Timed()) return fmt::format("{:g} s of one core", seconds);
  return fmt::format("{} steps", result.entries.front().steps);
}

std::string StandingFinding(const ContestResult& result, const std::vector<Judged>& verdict) {
  const Measure& loss = LossOf(result);
  const Judged& leader = verdict.front();
  std::string text = fmt::format("{} {} with {}.", Sentence(ModelOf(result, leader).Phrase()),
                                 verdict.size() == 1 ? "ends" : "leads", loss.Phrase({leader.loss, leader.loss, leader.loss}));
  const auto add = [&](Standing standing, const std::string& before, const std::string& after, const auto& tell) {
    const std::vector<std::string> told = Told(result, verdict, standing, tell);
    if (!told.empty()) text += " " + Sentence(before + Join(told) + after);
  };
  const auto by = [&](const SizedContender& model, const Judged& judged) {
    const bool known = std::isfinite(judged.by_both.low);
    return fmt::format("{} by {}{}", model.Phrase(), loss.Text(judged.gap),
                       known ? " (" + RangeText(loss, judged.by_both) + ")" : "");
  };
  add(Standing::kTied, "behind, but perhaps by chance: ", ".", by);
  add(Standing::kBehind, "behind: ", ".", by);
  add(Standing::kStopped, "stopped, because it could not win any more: ", ".",
      [&](const SizedContender& model, const Judged& judged) {
        const Entry& entry = result.entries[judged.contender];
        return fmt::format("{} after {} of {} steps, with {}", model.Phrase(), entry.reached, entry.steps,
                           loss.Text(judged.loss));
      });
  add(Standing::kDiverged, "", " diverged.", [](const SizedContender& model, const Judged&) { return model.Phrase(); });
  return text;
}

std::string TimeFinding(const ContestResult& result, double seconds) {
  return fmt::format("After {} each: {}", BudgetInWords(result, seconds), StandingFinding(result, result.verdict));
}

std::string SchemeFinding(const ContestResult& result) {
  const std::vector<Judged> verdict = JudgeSome(result, [&](const Entry& entry) {
    return entry.model.attends() ? result.at_time.BlockLosses(entry.model) : std::vector<std::vector<double>>();
  });
  return verdict.size() < 2 ? "" : StandingFinding(result, verdict);
}

std::vector<std::string> Running(const ContestResult& result) {
  const std::vector<const Entry*> running = result.InTheRunning();
  std::vector<std::string> phrases;
  phrases.reserve(running.size());
  for (const Entry* entry : running) phrases.push_back(entry->model.Phrase());
  return phrases;
}

Chosen ToGoOnWith(const ContestResult& result, std::size_t least) {
  Chosen chosen;
  std::size_t taken = 0;
  for (const Judged& judged : result.verdict) {
    const bool contends = judged.standing == Standing::kLeads || judged.standing == Standing::kTied;
    if (judged.standing == Standing::kDiverged || (!contends && taken >= least)) continue;
    ++taken;
    const SizedContender& model = ModelOf(result, judged);
    if (std::ranges::find(chosen.encoders, model.encoder) == chosen.encoders.end()) chosen.encoders.push_back(model.encoder);
    if (model.attends()) chosen.positions.push_back(model.position);
  }
  return chosen;
}

std::string GainFinding(const ContestResult& result) {
  const Outlook twice = OutlookOf(result, 2);
  std::vector<Outlook::Expected> falling;
  std::vector<std::string> past;
  for (const Outlook::Expected& one : twice.expected) {
    const Entry& entry = result.entries[one.contender];
    if (entry.best_steps == entry.curve.back().steps) {
      falling.push_back(one);
    } else {
      past.push_back(fmt::format("{} (at its best after {} of {} steps)", entry.model.Phrase(), entry.best_steps,
                                 entry.curve.back().steps));
    }
  }
  std::ranges::stable_sort(falling, {}, &Outlook::Expected::gain);
  const Measure& loss = LossOf(result);
  const auto tell = [&](const Outlook::Expected& one) {
    return fmt::format("{} ({})", loss.Text(one.gain), result.entries[one.contender].model.Phrase());
  };
  std::string text;
  if (!falling.empty()) {
    text = fmt::format(
        "Twice the training would lower the loss by {}{}. This is the prediction of a power law with a limit, through the "
        "losses after a quarter, half and all of the steps.",
        tell(falling.front()), falling.size() == 1 ? "" : " to " + tell(falling.back()));
    if (std::isfinite(twice.missed)) {
      text +=
          fmt::format(" From the first half alone the same law missed the final loss by at most {}.", loss.Text(twice.missed));
    }
  }
  if (!past.empty()) text += fmt::format("{}More training harms {}.", text.empty() ? "" : " ", Join(past));
  return text;
}

std::string OutlookFinding(const ContestResult& result, double times, const std::string& given) {
  const Outlook outlook = OutlookOf(result, times);
  if (outlook.expected.empty()) return "The curves are too short to predict longer trainings.";
  const Measure& loss = LossOf(result);
  const auto phrase = [&](std::size_t i) { return result.entries[i].model.Phrase(); };
  const Outlook::Expected& first = outlook.expected.front();
  std::string text =
      fmt::format("Given {}, {:.3g} times as long as here, take {}: its curve predicts {} on the validation part.", given,
                  times, phrase(first.contender), loss.Phrase({first.loss, first.loss, first.loss}));
  if (!std::isfinite(outlook.missed)) return text + " The curves are too short to measure the error of this prediction.";
  std::vector<std::string> near, stopped;
  for (const std::size_t i : outlook.Near()) {
    if (i != first.contender) near.push_back(phrase(i));
  }
  for (const Entry& entry : result.entries) {
    if (entry.stopped) stopped.push_back(entry.model.Phrase());
  }
  text += fmt::format(
      " From the first {:.3g} % of these trainings the same law predicted their ends with an error of at most {}. {}.",
      100 / times, loss.Text(outlook.missed),
      near.empty() ? "No other model comes within that error" : Sentence(Join(near)) + " may be as good, within that error");
  if (!stopped.empty()) text += fmt::format(" No prediction for models that stopped early: {}.", Join(stopped));
  return text;
}

std::string RateFinding(const ContestResult& result) {
  if (result.rates.size() < 2) return {};
  std::vector<std::string> parts, least, most;
  for (const double rate : result.rates) {
    std::vector<std::string> models;
    for (const Entry& entry : result.entries) {
      if (entry.rate == rate) models.push_back(entry.model.Phrase());
    }
    if (models.empty()) continue;
    parts.push_back(fmt::format("{:g} for {}", rate, Join(models)));
    if (rate == result.rates.front()) least = models;
    if (rate == result.rates.back()) most = models;
  }
  if (parts.empty()) return {};
  std::string rates;
  for (const double rate : result.rates) rates += fmt::format("{}{:g}", rates.empty() ? "" : ", ", rate);
  std::string text = fmt::format("Of the learning rates {} the validation part chose {}.", rates, Join(parts));
  if (!least.empty()) text += fmt::format(" For {} a smaller rate than any of these may be better.", Join(least));
  if (!most.empty()) text += fmt::format(" For {} a larger rate than any of these may be better.", Join(most));
  return text;
}

std::string PaceFinding(const ContestResult& result) {
  if (!result.Timed() || result.entries.size() < 2) return {};
  const auto [fast, slow] = std::ranges::minmax_element(result.entries, {}, &Entry::step_seconds);
  if (slow->step_seconds < kAsFast * fast->step_seconds) {
    return fmt::format("All are about as fast: a step of training takes {} to {}.", Milliseconds(fast->step_seconds),
                       Milliseconds(slow->step_seconds));
  }
  std::vector<std::string> fastest;
  for (const Entry& entry : result.entries) {
    if (entry.step_seconds < kAsFast * fast->step_seconds) fastest.push_back(entry.model.Phrase());
  }
  std::string text =
      fmt::format("On one core, {} {} the fastest ({} a step of training) and {} the slowest ({}): a factor of {:.1f}.",
                  Join(fastest), fastest.size() == 1 ? "is" : "are", Milliseconds(fast->step_seconds), slow->model.Phrase(),
                  Milliseconds(slow->step_seconds), slow->step_seconds / fast->step_seconds);
  const auto has = [&](const char* encoder) {
    return std::ranges::any_of(result.entries, [&](const Entry& entry) { return entry.model.encoder == encoder; });
  };
  if (!has("gru") || !has("lstm")) return text;
  return text +
         " LibTorch computes an LSTM on a CPU as one fused operation and a GRU step by step, so their times compare "
         "implementations. To compare the cells, look at the losses over the steps.";
}

Figure StandingFigure(const ContestResult& result, const std::vector<Reference>& references) {
  const Measure& loss = LossOf(result);
  BarChart chart{.y_label = loss.label, .names = {}, .values = {}, .low = {}, .high = {}, .dots = true};
  std::map<std::string, int> families;  // their colours do not depend on the ranks
  for (const Entry& entry : result.entries) families.emplace(entry.model.Family(), static_cast<int>(families.size()));
  const double leading = result.verdict.front().loss;
  const auto add = [&](const std::string& name, double value, const Interval& range, int group) {
    chart.names.push_back(name);
    chart.values.push_back(value / loss.unit);
    chart.low.push_back(range.low / loss.unit);
    chart.high.push_back(range.high / loss.unit);
    chart.groups.push_back(group);
  };
  for (const Judged& judged : result.verdict) {
    if (judged.standing == Standing::kDiverged || judged.standing == Standing::kStopped) continue;
    const Interval gap = judged.by_both;
    const bool compared = judged.standing == Standing::kTied || judged.standing == Standing::kBehind;
    const bool known = compared && std::isfinite(gap.low);
    add(NameOf(result, judged), judged.loss,
        known ? Interval{leading + gap.low, leading + gap.high} : Interval{judged.loss, judged.loss},
        families.at(ModelOf(result, judged).Family()));
  }
  std::vector<Reference> ordered = references;
  std::ranges::stable_sort(ordered, {}, &Reference::value);
  for (const Reference& reference : ordered) add(reference.name, reference.value, {reference.value, reference.value}, -1);
  const int height = std::max(200, 110 + 26 * static_cast<int>(chart.names.size()));
  std::string caption =
      "Further left is better. A bar spans the losses that a model may have beside the leader's with other seeds and other "
      "data (95 % for all pairs together).";
  if (!references.empty()) caption += " Methods in grey need no training.";
  if (std::ranges::any_of(result.verdict, [](const Judged& judged) { return judged.standing == Standing::kStopped; }))
    caption += " The table below lists the models that stopped early.";
  return {.name = result.at_time.part() + "-standing",
          .title = loss.label,
          .caption = std::move(caption),
          .command = {},
          .content = std::move(chart),
          .width = 680,
          .height = height};
}

Table StandingTable(const ContestResult& result, const std::string& caption) {
  Table table{caption,
              {"Model", "Loss", "Behind by", "By other seeds", "By other data", "Standing", "Runs", "Steps", "Best after",
               "Rate", "Gain of twice the training"},
              {}};
  const Measure& loss = LossOf(result);
  for (const Judged& judged : result.verdict) {
    const Entry& entry = result.entries[judged.contender];
    const bool gap = judged.standing == Standing::kTied || judged.standing == Standing::kBehind;
    table.rows.push_back({entry.model.Label(), NumberText(loss, judged.loss), gap ? loss.Text(judged.gap) : "",
                          gap ? RangeText(loss, judged.by_seeds) : "", gap ? RangeText(loss, judged.by_blocks) : "",
                          ToString(judged.standing), std::to_string(entry.runs), std::to_string(entry.reached),
                          std::to_string(entry.best_steps), entry.rate > 0 ? fmt::format("{:g}", entry.rate) : "n/a",
                          entry.stopped ? "n/a" : NumberText(loss, entry.Gain())});
  }
  return table;
}

Table RateTable(const ContestResult& result) {
  const Measure& loss = LossOf(result);
  Table table{"Least loss on the validation part by learning rate, within the steps that each rate was given", {"Model"}, {}};
  for (const double rate : result.rates) table.header.push_back(fmt::format("{:g}", rate));
  for (const Entry& entry : result.entries) {
    if (entry.tried.empty()) continue;
    std::vector<std::string> row = {entry.model.Label()};
    for (const double rate : result.rates) {
      std::string cell = "n/a";
      for (const TriedRate& tried : entry.tried) {
        if (tried.rate != rate) continue;
        cell = std::isfinite(tried.loss) ? fmt::format("{} ({} steps)", loss.Text(tried.loss), tried.steps) : "diverged";
      }
      row.push_back(std::move(cell));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

Figure GainFigure(const ContestResult& result) {
  LinePlot plot{"Steps", "Loss on the validation part", /*log_x=*/true, /*log_y=*/false, {}};
  for (const Entry& entry : result.entries) {
    Series series{.name = entry.model.Label(), .x = {}, .y = {}, .low = {}, .high = {}};
    for (const CurvePoint& point : entry.curve) {
      series.x.push_back(static_cast<double>(point.steps));
      series.y.push_back(point.validation / LossOf(result).unit);
    }
    if (!series.x.empty()) plot.series.push_back(std::move(series));
  }
  return {
      .name = result.at_time.part() + "-gain",
      .title = "What more training brings",
      .caption = "The first seed of each model. Weights are means over the steps; the study keeps those with the least loss.",
      .command = {},
      .content = std::move(plot)};
}

}  // namespace heed::lab
