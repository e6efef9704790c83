#include "lab/runs/contest_page.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "contest_prose.h"
#include "lab/report/prose.h"
#include "lab/runs/contest.h"

namespace heed::lab {
namespace {

using namespace fmt::literals;

const Prose& Texts() {
  static const Prose prose(text::kContestProseTxt);
  return prose;
}

constexpr double kAsFast = 1.1;  // a pilot's second tells no finer on a machine that others share

const Measure& LossOf(const ContestResult& result) { return result.at_time.ColumnOf("loss").measure; }

const SizedContender& ModelOf(const ContestResult& result, const Judged& judged) {
  return result.entries[judged.contender].model;
}

bool MayBeTheBest(const Judged& judged) { return judged.standing == Standing::kLeads || judged.standing == Standing::kTied; }

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

std::string SpreadInWords(int64_t seeds) {
  return seeds == 1 ? "one seed" : fmt::format("mean (least–greatest) of {} seeds", seeds);
}

std::string SpreadNote(int64_t seeds, const std::string& mark) {
  return seeds == 1 ? "One seed." : fmt::format("{} from the least to the greatest of {} seeds.", mark, seeds);
}

Table ScoreTable(const std::string& caption, const Measurements& measured, const Models& models,
                 const std::vector<Heading>& headings) {
  Table table{caption, {"Model", "Parameters"}, {}};
  for (const Heading& heading : headings) table.header.push_back(heading.text);
  for (const SizedContender& model : models) {
    std::vector<std::string> row = {model.Label(), std::to_string(model.parameters)};
    for (const Heading& heading : headings) {
      const Column& column = heading.column;
      row.push_back(measured.Reaches(model, column) ? column.measure.Cell(measured.Over(model, column)) : "n/a");
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

Figure BarFigure(const Measurements& measured, const Column& column, const std::vector<Reference>& references) {
  const Measure& measure = column.measure;
  BarChart chart{.y_label = measure.label, .bars = {}};
  std::map<std::string, int> families;  // their colours do not depend on the ranks
  for (const Contender& model : measured.models()) families.emplace(model.Family(), static_cast<int>(families.size()));
  const auto add = [&](const std::string& name, const Spread& spread, int group) {
    chart.bars.push_back({name, spread.mean / measure.unit, spread.low / measure.unit, spread.high / measure.unit, group});
  };
  for (const SizedContender& model : measured.Ranked(column))
    add(model.Label(), measured.Over(model, column), families.at(model.Family()));
  for (const Reference& reference : references)
    add(reference.name, {reference.value, reference.value, reference.value}, /*group=*/-1);
  std::string caption = measure.more_is_better ? "Longer is better. " : "Shorter is better. ";
  if (!references.empty())
    caption += references.size() == 1 ? "The last bar needs no model. " : "The last bars need no model. ";
  const int height = std::max(200, 110 + 26 * static_cast<int>(chart.bars.size()));
  return {.name = measure.name,
          .title = measure.label,
          .caption = caption + SpreadNote(measured.seeds(), "The mark at a bar's end reaches"),
          .command = {},
          .content = std::move(chart),
          .width = 680,
          .height = height};
}

Series Curve(const Measurements& measured, const Contender& model, const std::string& measure, const std::string& name) {
  Series series{.name = name, .x = {}, .y = {}, .low = {}, .high = {}};
  for (const Column& column : measured.ColumnsOf(measure)) {
    if (!measured.Reaches(model, column)) continue;
    const Spread spread = measured.Over(model, column);
    series.x.push_back(static_cast<double>(column.at));
    series.y.push_back(spread.mean / column.measure.unit);
    series.low.push_back(spread.low / column.measure.unit);
    series.high.push_back(spread.high / column.measure.unit);
  }
  return series;
}

std::string BudgetInWords(const ContestResult& result, double seconds) {
  if (result.Timed()) return fmt::format("{:g} s of one core", seconds);
  return fmt::format("{} steps", result.entries.front().steps);
}

std::string StandingFinding(const ContestResult& result, const std::vector<Judged>& verdict) {
  const Measure& loss = LossOf(result);
  const Prose& tell = Texts();
  const auto by = [&](const SizedContender& model, const Judged& judged) {
    const bool known = std::isfinite(judged.by_both.low);
    return fmt::format("{} by {}{}", model.Phrase(), loss.Text(judged.gap),
                       known ? " (" + RangeText(loss, judged.by_both) + ")" : "");
  };
  const auto stopped = [&](const SizedContender& model, const Judged& judged) {
    const Entry& entry = result.entries[judged.contender];
    return tell("stopped", "model"_a = model.Phrase(), "reached"_a = entry.reached, "steps"_a = entry.steps,
                "loss"_a = loss.Text(judged.loss));
  };
  const Judged& leader = verdict.front();
  std::string text =
      tell(verdict.size() == 1 ? "standing alone" : "standing leads", "model"_a = Sentence(ModelOf(result, leader).Phrase()),
           "loss"_a = loss.Phrase({leader.loss, leader.loss, leader.loss}));
  const auto add = [&](Standing standing, const auto& one) {
    const std::vector<std::string> told = Told(result, verdict, standing, one);
    if (!told.empty()) text += " " + Sentence(tell(fmt::format("standing {}", ToString(standing)), "models"_a = Join(told)));
  };
  add(Standing::kTied, by);
  add(Standing::kBehind, by);
  add(Standing::kStopped, stopped);
  add(Standing::kDiverged, [](const SizedContender& model, const Judged&) { return model.Phrase(); });
  return text;
}

std::string TimeFinding(const ContestResult& result, double seconds) {
  return Texts()("standing at", "given"_a = BudgetInWords(result, seconds),
                 "standing"_a = StandingFinding(result, result.verdict));
}

std::string SchemeFinding(const ContestResult& result) {
  const std::vector<Judged> verdict = JudgeSome(result, [&](const Entry& entry) {
    return entry.model.attends() ? result.at_time.BlockLosses(entry.model) : std::vector<std::vector<double>>();
  });
  return verdict.size() < 2 ? "" : StandingFinding(result, verdict);
}

std::vector<std::string> Running(const ContestResult& result) {
  std::vector<std::string> phrases;
  for (const Judged& judged : result.verdict) {
    if (MayBeTheBest(judged)) phrases.push_back(ModelOf(result, judged).Phrase());
  }
  return phrases;
}

Chosen ToGoOnWith(const ContestResult& result, std::size_t least) {
  Chosen chosen;
  std::size_t taken = 0;
  for (const Judged& judged : result.verdict) {
    if (judged.standing == Standing::kDiverged || (!MayBeTheBest(judged) && taken >= least)) continue;
    ++taken;
    const SizedContender& model = ModelOf(result, judged);
    if (std::ranges::find(chosen.encoders, model.encoder) == chosen.encoders.end()) chosen.encoders.push_back(model.encoder);
    if (model.attends()) chosen.positions.push_back(model.position);
  }
  return chosen;
}

std::string GainFinding(const ContestResult& result) {
  const Prose& tell = Texts();
  const Outlook twice = OutlookOf(result, 2);
  std::vector<Outlook::Expected> falling;
  std::vector<std::string> past;
  for (const Outlook::Expected& one : twice.expected) {
    const Entry& entry = result.entries[one.contender];
    const int64_t steps = entry.curve.back().steps;
    if (one.gain > 0 || entry.best_steps == steps) {
      falling.push_back(one);
    } else {
      past.push_back(tell("gain harms one", "model"_a = entry.model.Phrase(), "best"_a = entry.best_steps, "steps"_a = steps));
    }
  }
  std::ranges::stable_sort(falling, {}, &Outlook::Expected::gain);
  const Measure& loss = LossOf(result);
  const auto gain = [&](const Outlook::Expected& one) {
    return fmt::format("{} ({})", loss.Text(one.gain), result.entries[one.contender].model.Phrase());
  };
  std::vector<std::string> told;
  if (!falling.empty()) {
    const std::string most = falling.size() == 1 ? "" : " to " + gain(falling.back());
    told.push_back(tell("gain", "gains"_a = gain(falling.front()) + most));
    if (std::isfinite(twice.missed)) told.push_back(tell("gain missed", "missed"_a = loss.Text(twice.missed)));
  }
  if (!past.empty()) told.push_back(tell("gain harms", "models"_a = Join(past)));
  return fmt::format("{}", fmt::join(told, " "));
}

std::string OutlookFinding(const ContestResult& result, double times, const std::string& given) {
  const Prose& tell = Texts();
  const Outlook outlook = OutlookOf(result, times);
  if (outlook.expected.empty()) return tell("outlook none");
  const Measure& loss = LossOf(result);
  const auto phrase = [&](std::size_t i) { return result.entries[i].model.Phrase(); };
  const Outlook::Expected& first = outlook.expected.front();
  const std::string text = tell("outlook", "given"_a = given, "times"_a = times, "model"_a = phrase(first.contender),
                                "loss"_a = loss.Phrase({first.loss, first.loss, first.loss}));
  if (!std::isfinite(outlook.missed)) return text + " " + tell("outlook unknown");
  std::vector<std::string> near, stopped;
  for (const std::size_t i : outlook.Near()) {
    if (i != first.contender) near.push_back(phrase(i));
  }
  for (const Entry& entry : result.entries) {
    if (entry.stopped) stopped.push_back(entry.model.Phrase());
  }
  std::vector<std::string> told = {
      text, tell("outlook missed", "share"_a = 100 / times, "missed"_a = loss.Text(outlook.missed)),
      near.empty() ? tell("outlook far") : tell("outlook near", "models"_a = Sentence(Join(near)))};
  if (!stopped.empty()) told.push_back(tell("outlook stopped", "models"_a = Join(stopped)));
  return fmt::format("{}", fmt::join(told, " "));
}

std::string RateFinding(const ContestResult& result) {
  if (result.rates.size() < 2) return {};
  const Prose& tell = Texts();
  const auto chosen = [&](double rate) {
    std::vector<std::string> models;
    for (const Entry& entry : result.entries) {
      if (entry.rate == rate) models.push_back(entry.model.Phrase());
    }
    return Join(models);
  };
  std::vector<std::string> rates, parts;
  for (const double rate : result.rates) {
    rates.push_back(fmt::format("{:g}", rate));
    if (const std::string models = chosen(rate); !models.empty()) parts.push_back(fmt::format("{:g} for {}", rate, models));
  }
  if (parts.empty()) return {};
  std::string text = tell("rates", "rates"_a = fmt::format("{}", fmt::join(rates, ", ")), "chosen"_a = Join(parts));
  const std::string least = chosen(result.rates.front()), most = chosen(result.rates.back());
  if (!least.empty()) text += " " + tell("rates below", "models"_a = least);
  if (!most.empty()) text += " " + tell("rates above", "models"_a = most);
  return text;
}

std::string PaceFinding(const ContestResult& result) {
  if (!result.Timed() || result.entries.size() < 2) return {};
  const Prose& tell = Texts();
  const auto [first, last] = std::ranges::minmax_element(result.entries, {}, &Entry::step_seconds);
  const double least = first->step_seconds, most = last->step_seconds;
  const std::string fast = Milliseconds(least), slow = Milliseconds(most);
  if (most < kAsFast * least) return tell("pace alike", "fast"_a = fast, "slow"_a = slow);
  std::vector<std::string> fastest;
  for (const Entry& entry : result.entries) {
    if (entry.step_seconds < kAsFast * least) fastest.push_back(entry.model.Phrase());
  }
  const std::string are = Join(fastest) + (fastest.size() == 1 ? " is" : " are");
  const std::string text = tell("pace", "fastest"_a = are, "fast"_a = fast, "slowest"_a = last->model.Phrase(), "slow"_a = slow,
                                "factor"_a = most / least);
  const auto has = [&](const char* encoder) {
    return std::ranges::any_of(result.entries, [&](const Entry& entry) { return entry.model.encoder == encoder; });
  };
  return has("gru") && has("lstm") ? text + " " + tell("pace cells") : text;
}

Figure StandingFigure(const ContestResult& result, const std::vector<Reference>& references) {
  const Measure& loss = LossOf(result);
  BarChart chart{.y_label = loss.label, .bars = {}, .dots = true};
  std::map<std::string, int> families;  // their colours do not depend on the ranks
  for (const Entry& entry : result.entries) families.emplace(entry.model.Family(), static_cast<int>(families.size()));
  const double leading = result.verdict.front().loss;
  const auto add = [&](const std::string& name, double value, const Interval& range, int group) {
    chart.bars.push_back({name, value / loss.unit, range.low / loss.unit, range.high / loss.unit, group});
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
  const int height = std::max(200, 110 + 26 * static_cast<int>(chart.bars.size()));
  const Prose& tell = Texts();
  std::string caption = tell("figure");
  if (!references.empty()) caption += " " + tell("figure references");
  if (std::ranges::any_of(result.verdict, [](const Judged& judged) { return judged.standing == Standing::kStopped; }))
    caption += " " + tell("figure stopped");
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
  const Prose& tell = Texts();
  return {.name = result.at_time.part() + "-gain",
          .title = "What more training brings",
          .caption = tell("figure of gains"),
          .command = {},
          .content = std::move(plot)};
}

}  // namespace heed::lab
