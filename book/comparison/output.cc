#include "book/comparison/output.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/core.h>

#include "lab/report/figure.h"
#include "lab/report/page.h"
#include "lab/runs/contender.h"

namespace heed::lab {
namespace {

// 134217728 as 134,217,728.
std::string Grouped(int64_t value) {
  std::string text = std::to_string(value);
  for (std::size_t end = text.size(), first = value < 0 ? 1 : 0; end > first + 3;) text.insert(end -= 3, 1, ',');
  return text;
}

std::string Hops(int64_t hops) { return hops == kNever ? "never" : Grouped(hops); }

std::string Seconds(double seconds) {
  if (seconds <= 0) return "-";
  if (seconds < 1e-3) return fmt::format("{:.1f} µs", seconds * 1e6);
  return seconds < 1 ? fmt::format("{:.2f} ms", seconds * 1e3) : fmt::format("{:.2f} s", seconds);
}

std::string WithError(const Exponent& exponent) {
  return fmt::format("{:.3f} ± {:.3f}", exponent.value, exponent.standard_error);
}

Table FormulaTable(const Comparison& comparison) {
  Table table{
      "One layer of width d over n tokens; h: heads, k: kernel, D: dilation, w: window to either side. Beside these "
      "multiply-adds: docs/comparison.md",
      {"Layer", "Multiply-adds", "Sequential steps", "Memory", "Hops from first to last", "Layers until seen together"},
      {}};
  for (const Layer* layer : comparison.options.layers) {
    const LayerFacts& facts = layer->facts();
    table.rows.push_back({facts.name, facts.multiply_adds, facts.steps, facts.memory, facts.hops, facts.layers});
  }
  return table;
}

// One row a layer, at the longest of the lengths; the differences are the largest of all lengths.
Table CountTable(const Comparison& comparison) {
  const int64_t longest = comparison.options.lengths.back();
  Table table{
      fmt::format("Counted at n = {}; error: largest difference from the formulas over all counts and lengths; values: "
                  "difference from the layer of heed::nn in units of rounding",
                  Grouped(longest)),
      {"Layer", "Multiply-adds", "Projections", "Steps", "Rounds", "Span", "Memory", "Hops", "Layers", "Error", "Values"},
      {}};
  for (const Layer* layer : comparison.options.layers) {
    int64_t error = 0;
    double value_error = 0;
    const ComparisonRow* last = nullptr;
    for (const ComparisonRow& row : comparison.rows) {
      if (row.layer != layer) continue;
      last = &row;
      error = std::max(error, row.error);
      value_error = std::max(value_error, row.value_error);
    }
    const LayerNumbers& numbers = last->numbers();
    table.rows.push_back({layer->name(), Grouped(numbers.multiply_adds()), Grouped(numbers.Of(Term::kProjections)),
                          Grouped(numbers.sequential_steps), Grouped(numbers.rounds), Grouped(numbers.span),
                          Grouped(numbers.memory), Hops(numbers.path_length), Hops(numbers.layers_to_connect),
                          last->counted ? Grouped(error) : "formula only",
                          last->counted ? fmt::format("{:.1f}", value_error) : "-"});
  }
  return table;
}

// One row a layer, one column a length.
template <class Text>
Table LengthTable(const Comparison& comparison, const std::string& caption, const Text& text) {
  Table table{caption, {"Layer"}, {}};
  for (const int64_t length : comparison.options.lengths) table.header.push_back("n = " + Grouped(length));
  for (const ComparisonRow& row : comparison.rows) {
    if (table.rows.empty() || table.rows.back().front() != row.layer->name()) table.rows.push_back({row.layer->name()});
    table.rows.back().push_back(text(row));
  }
  return table;
}

void AddTimeTables(const Comparison& comparison, std::vector<Table>& tables) {
  const std::vector<int>& counts = comparison.options.thread_counts;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    Table table =
        LengthTable(comparison, fmt::format("Time of one forward pass on {} thread{}", counts[i], counts[i] == 1 ? "" : "s"),
                    [i](const ComparisonRow& row) { return Seconds(row.seconds[i]); });
    if (i + 1 == counts.size() && !comparison.time_growth.empty()) {
      table.caption += "; exponent of n over the longer half of the lengths";
      table.header.push_back("Exponent");
      for (std::size_t row = 0; row < table.rows.size(); ++row) {
        table.rows[row].push_back(WithError(comparison.time_growth[row].of_length));
      }
    }
    tables.push_back(std::move(table));
  }
}

Table CrossoverTable(const Comparison& comparison) {
  Table table{"From which length on self-attention costs at least as much",
              {"As", "Its scores and sums alone", "With projections", "Time"},
              {}};
  const auto at = [](int64_t length) { return length == 1 ? "any n" : "n = " + Grouped(length); };
  for (const Crossover& crossover : comparison.crossovers) {
    table.rows.push_back(
        {crossover.than, at(crossover.scores), crossover.whole == 0 ? "-" : at(crossover.whole), crossover.in_words});
  }
  return table;
}

Table ExponentTable(const Comparison& comparison) {
  Table table{"Exponents of each term, fitted to counts over a grid of lengths, widths and reaches (in brackets: theory)",
              {"Layer", "Term", "n", "d", "reach"},
              {}};
  for (const TermExponents& entry : comparison.exponents) {
    std::vector<std::string> row = {entry.layer, entry.quantity + (entry.over_log_n ? " / log2 n" : ""), "-", "-", "-"};
    for (const FittedExponent& one : entry.exponents) {
      const std::string text = fmt::format("{:.3f} ({:g})", one.fitted.value, one.theory);
      one.of == "n" ? row[2] = text : one.of == "d" ? row[3] = text : row[4] = one.of + ": " + text;
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

// At distances 0, 1, 2, 4, ... and the farthest.
Table InfluenceTable(const Comparison& comparison) {
  Table table{"log10 of the norm of dy_n / dx_i by distance n - i, in causal encoders of two layers as they are initialised",
              {"Encoder"},
              {}};
  std::vector<std::size_t> distances = {0};
  const std::size_t farthest = comparison.influence.front().log10.size() - 1;
  for (std::size_t distance = 1; distance < farthest; distance *= 2) distances.push_back(distance);
  distances.push_back(farthest);
  for (const std::size_t distance : distances) table.header.push_back(std::to_string(distance));
  for (const InfluenceCurve& curve : comparison.influence) {
    std::vector<std::string> row = {curve.encoder};
    for (const std::size_t distance : distances) {
      const double value = curve.log10[distance];
      row.push_back(std::isfinite(value) ? fmt::format("{:.2f}", value) : "zero");
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::vector<std::string> CsvFields(const ComparisonRow& row) {
  std::vector<std::string> fields = {row.layer->name()};
  const LayerShape& shape = row.shape;
  for (const int64_t value : {row.length, shape.width, shape.kernel, shape.heads, shape.window, shape.level}) {
    fields.push_back(std::to_string(value));
  }
  const std::vector<NamedNumber> found = Entries(row.found), expected = Entries(row.expected);
  for (std::size_t i = 0; i < found.size(); ++i) {
    fields.push_back(row.counted ? std::to_string(found[i].value) : "");
    fields.push_back(std::to_string(expected[i].value));
  }
  fields.push_back(row.counted ? std::to_string(row.error) : "");
  fields.push_back(row.counted ? FormatNumber(row.value_error) : "");
  for (const double seconds : row.seconds) fields.push_back(FormatNumber(seconds));
  return fields;
}

nlohmann::ordered_json NumbersJson(const LayerNumbers& numbers) {
  nlohmann::ordered_json json;
  for (const NamedNumber& number : Entries(numbers)) {
    json[number.name] = number.value == kNever ? nlohmann::ordered_json() : nlohmann::ordered_json(number.value);
  }
  return json;
}

nlohmann::ordered_json RowJson(const Comparison& comparison, const ComparisonRow& row) {
  nlohmann::ordered_json json = {{"layer", row.layer->name()},
                                 {"length", row.length},
                                 {"level", row.shape.level},
                                 {"counted", nullptr},
                                 {"error", nullptr},
                                 {"value_error", nullptr},
                                 {"seconds", nullptr},
                                 {"value_bound", row.value_bound},
                                 {"expected", NumbersJson(row.expected)}};
  if (row.counted) {
    json["counted"] = NumbersJson(row.found);
    json["error"] = row.error;
    json["value_error"] = row.value_error;
  }
  for (std::size_t i = 0; i < row.seconds.size(); ++i) {
    json["seconds"][std::to_string(comparison.options.thread_counts[i])] = row.seconds[i];
  }
  return json;
}

nlohmann::ordered_json CrossoverJson(const Crossover& crossover) {
  nlohmann::ordered_json json = {{"than", crossover.than},
                                 {"scores_and_sums", crossover.scores},
                                 {"with_projections", nullptr},
                                 {"seconds", nullptr},
                                 {"seconds_in_words", crossover.in_words}};
  if (crossover.whole > 0) json["with_projections"] = crossover.whole;
  if (crossover.seconds > 0) json["seconds"] = crossover.seconds;
  return json;
}

nlohmann::ordered_json ExponentsJson(const TermExponents& entry) {
  nlohmann::ordered_json json = {{"layer", entry.layer}, {"quantity", entry.quantity}, {"over_log_n", entry.over_log_n}};
  for (const FittedExponent& one : entry.exponents) {
    json["exponents"].push_back(
        {{"of", one.of}, {"fitted", one.fitted.value}, {"standard_error", one.fitted.standard_error}, {"theory", one.theory}});
  }
  return json;
}

nlohmann::ordered_json InfluenceJson(const InfluenceCurve& curve) {
  nlohmann::ordered_json json = {{"encoder", curve.encoder}, {"log10", nlohmann::ordered_json::array()}};
  for (const double value : curve.log10) {
    json["log10"].push_back(std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json());
  }
  return json;
}

// The elements of a list, each by `convert`.
template <class List, class Convert>
nlohmann::ordered_json Array(const List& list, const Convert& convert) {
  auto array = nlohmann::ordered_json::array();
  for (const auto& element : list) array.push_back(convert(element));
  return array;
}

}  // namespace

std::vector<Table> ComparisonTables(const Comparison& comparison) {
  std::vector<Table> tables = {FormulaTable(comparison), CountTable(comparison)};
  if (comparison.options.lengths.size() > 1) {
    tables.push_back(LengthTable(comparison, "Multiply-adds by length",
                                 [](const ComparisonRow& row) { return Grouped(row.numbers().multiply_adds()); }));
    tables.push_back(LengthTable(comparison, "Span by length: operations one after the other, a sum of m terms being ⌈log2 m⌉",
                                 [](const ComparisonRow& row) { return Grouped(row.numbers().span); }));
    tables.push_back(LengthTable(comparison, "Hops from the first to the last token by length",
                                 [](const ComparisonRow& row) { return Hops(row.numbers().path_length); }));
  }
  AddTimeTables(comparison, tables);
  if (!comparison.crossovers.empty()) tables.push_back(CrossoverTable(comparison));
  if (!comparison.exponents.empty()) tables.push_back(ExponentTable(comparison));
  if (!comparison.influence.empty()) tables.push_back(InfluenceTable(comparison));
  return tables;
}

std::string ComparisonCsv(const Comparison& comparison) {
  std::vector<std::string> header = {"layer", "length", "width", "kernel", "heads", "window", "level"};
  for (const NamedNumber& number : Entries({})) {
    header.push_back(number.name);
    header.push_back("expected_" + number.name);
  }
  header.insert(header.end(), {"error", "value_error"});
  for (const int threads : comparison.options.thread_counts) header.push_back("seconds_on_" + std::to_string(threads));
  CsvText csv;
  csv.Line(header);
  for (const ComparisonRow& row : comparison.rows) csv.Line(CsvFields(row));
  return csv.text();
}

nlohmann::ordered_json ComparisonJson(const Comparison& comparison) {
  const ComparisonOptions& options = comparison.options;
  return {{"width", options.width},
          {"kernel", options.kernel},
          {"heads", options.heads},
          {"window", options.window},
          {"seed", options.seed},
          {"largest_error", comparison.largest_error},
          {"all_agree", comparison.AllAgree()},
          {"rows", Array(comparison.rows, [&](const ComparisonRow& row) { return RowJson(comparison, row); })},
          {"crossovers", Array(comparison.crossovers, CrossoverJson)},
          {"exponents", Array(comparison.exponents, ExponentsJson)},
          {"time_growth", Array(comparison.time_growth,
                                [](const TimeGrowth& growth) -> nlohmann::ordered_json {
                                  return {{"layer", growth.layer},
                                          {"exponent", growth.of_length.value},
                                          {"standard_error", growth.of_length.standard_error}};
                                })},
          {"influence", Array(comparison.influence, InfluenceJson)}};
}

std::vector<std::string> ComparisonFindings(const Comparison& comparison) {
  const auto counted = std::ranges::count_if(comparison.rows, &ComparisonRow::counted);
  const int64_t longest = comparison.options.lengths.back();
  std::vector<std::string> findings = {
      fmt::format("Counted on running layers at {} lengths, operations, sequential steps and paths differ from "
                  "the closed formulas by {} at most, over {} rows.",
                  comparison.options.lengths.size(), comparison.largest_error, counted)};
  std::vector<std::string> paths, times, always, from;
  for (const ComparisonRow& row : comparison.rows) {
    if (row.length != longest) continue;
    const int64_t hops = row.numbers().path_length;
    if (hops != kNever) paths.push_back(fmt::format("{} {} in {}", hops, hops == 1 ? "step" : "steps", row.layer->name()));
    const double seconds = row.best_seconds();
    if (seconds > 0) times.push_back(fmt::format("{:.2g} ms ({})", 1e3 * seconds, row.layer->name()));
  }
  for (const Crossover& crossover : comparison.crossovers) {
    if (crossover.whole == 1) always.push_back(crossover.than);
    if (crossover.whole > 1) from.push_back(fmt::format("{} from {} tokens on", crossover.than, crossover.whole));
  }
  findings.push_back(fmt::format("At {} tokens, information from the first reaches the last in {}.", longest, Join(paths)));
  if (!times.empty()) {
    findings.push_back(fmt::format("One forward pass of width {} takes {}.", comparison.options.width, Join(times)));
  }
  if (!always.empty()) {
    findings.push_back(fmt::format("Self-attention needs more multiply-adds than {} at any length.", Join(always)));
  }
  if (!from.empty()) findings.push_back(fmt::format("Self-attention needs as many multiply-adds as {}.", Join(from)));
  return findings;
}

std::filesystem::path WriteComparison(const Comparison& comparison, const std::filesystem::path& folder) {
  Page page("Convolution, recurrence and self-attention", folder, CommandOf(comparison.options, folder), {});
  for (const std::string& finding : ComparisonFindings(comparison)) page.Say(finding);
  for (const Figure& figure : comparison.figures) page.Show(figure);
  for (const Table& table : ComparisonTables(comparison)) page.Show(table);
  page.Keep("compare.csv", ComparisonCsv(comparison));
  page.KeepJson("compare.json", ComparisonJson(comparison));
  return page.Write();
}

}  // namespace heed::lab
