#include "lab/comparison/output.h"

#include <cstdio>
#include <utility>

#include "lab/comparison/reachability.h"
#include "lab/report/file.h"

namespace heed::lab {
namespace {

std::string Rounded(double value, const char* format) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

// 134217728 as 134,217,728.
std::string Grouped(int64_t value) {
  std::string text = std::to_string(value);
  for (std::size_t end = text.size(), first = value < 0 ? 1 : 0; end > first + 3;) text.insert(end -= 3, 1, ',');
  return text;
}

std::string Hops(int64_t hops) { return hops == kNever ? "never" : Grouped(hops); }

std::string Seconds(double seconds) {
  if (seconds <= 0) return "-";
  if (seconds < 1e-3) return Rounded(seconds * 1e6, "%.1f µs");
  return seconds < 1 ? Rounded(seconds * 1e3, "%.2f ms") : Rounded(seconds, "%.2f s");
}

std::string Exponent(const PowerLaw& law) {
  return law.exponent == 0 && law.standard_error == 0 ? "-"
                                                      : Rounded(law.exponent, "%.3f") + Rounded(law.standard_error, " ± %.3f");
}

Table FormulaTable() {
  return {"One layer of width d over n tokens; k: kernel",
          {"Layer", "Multiply-adds", "Sequential steps", "Hops from first to last", "Layers until both are seen together"},
          {{"convolution (centred)", "k n d² - d² (k² - 1) / 4", "1", "⌈(n - 1) / ((k - 1) / 2)⌉", "⌈(n - 1) / (k - 1)⌉"},
           {"convolution (causal)", "k n d² - d² k (k - 1) / 2", "1", "⌈(n - 1) / (k - 1)⌉", "⌈(n - 1) / (k - 1)⌉"},
           {"recurrence", "2 n d²", "n", "n - 1", "1"},
           {"self-attention", "4 n d² (projections) + 2 n² d", "1", "1", "1"}}};
}

Table RowTable(const Comparison& comparison) {
  Table table{
      "Counted on running layers; error: largest difference from the formulas over all counts; values: difference from "
      "the layer of heed::nn in units of rounding",
      {"Layer", "n", "Multiply-adds", "Projections", "Steps", "Rounds", "Span", "Hops", "Layers", "Error", "Values", "Time"},
      {}};
  for (const ComparisonRow& row : comparison.rows) {
    const LayerNumbers& numbers = row.counted ? row.found : row.expected;
    table.rows.push_back({NameOf(row.layer.kind), Grouped(row.length), Grouped(numbers.multiply_adds()),
                          Grouped(numbers.projections.multiply_adds), Grouped(numbers.sequential_steps),
                          Grouped(numbers.rounds), Grouped(numbers.span), Hops(numbers.path_length),
                          Hops(numbers.layers_to_connect), row.counted ? Grouped(row.error) : "formula only",
                          row.counted ? Rounded(row.value_error, "%.1f") : "-", Seconds(row.seconds)});
  }
  return table;
}

Table CrossoverTable(const Comparison& comparison) {
  Table table{
      "From which length on self-attention costs at least as much", {"Cost of", "against", "Multiply-adds", "Time"}, {}};
  for (const Crossover& crossover : comparison.crossovers) {
    table.rows.push_back({crossover.dearer, crossover.than,
                          crossover.multiply_adds == 1 ? "any n" : "n = " + Grouped(crossover.multiply_adds),
                          crossover.seconds_in_words});
  }
  return table;
}

Table GrowthTable(const Comparison& comparison) {
  Table table{"Exponent of n, fitted over the longer half of the lengths", {"Layer", "Multiply-adds", "Time"}, {}};
  for (const Growth& growth : comparison.growth) {
    table.rows.push_back({growth.layer, Exponent(growth.multiply_adds), Exponent(growth.seconds)});
  }
  return table;
}

// Fields without commas, quotes or line ends.
void AddLine(std::string& csv, const std::vector<std::string>& fields) {
  for (const std::string& field : fields) {
    csv += field;
    csv += ',';
  }
  csv.back() = '\n';
}

std::vector<std::string> CsvFields(const ComparisonRow& row) {
  std::vector<std::string> fields = {NameOf(row.layer.kind)};
  for (const int64_t value : {row.length, row.layer.width, row.layer.kernel, row.layer.heads}) {
    fields.push_back(std::to_string(value));
  }
  const std::vector<NamedNumber> found = Entries(row.found), expected = Entries(row.expected);
  for (std::size_t i = 0; i < found.size(); ++i) {
    fields.push_back(row.counted ? std::to_string(found[i].value) : "");
    fields.push_back(std::to_string(expected[i].value));
  }
  fields.push_back(row.counted ? std::to_string(row.error) : "");
  fields.push_back(row.counted ? FormatNumber(row.value_error) : "");
  fields.push_back(row.seconds > 0 ? FormatNumber(row.seconds) : "");
  return fields;
}

nlohmann::ordered_json NumbersJson(const LayerNumbers& numbers) {
  nlohmann::ordered_json json;
  for (const NamedNumber& number : Entries(numbers)) {
    json[number.name] = number.value == kNever ? nlohmann::ordered_json() : nlohmann::ordered_json(number.value);
  }
  return json;
}

nlohmann::ordered_json RowJson(const ComparisonRow& row) {
  nlohmann::ordered_json json = {{"layer", NameOf(row.layer.kind)},       {"length", row.length}, {"counted", nullptr},
                                 {"expected", NumbersJson(row.expected)}, {"error", nullptr},     {"value_error", nullptr},
                                 {"value_bound", row.value_bound},        {"seconds", nullptr}};
  if (row.counted) {
    json["counted"] = NumbersJson(row.found);
    json["error"] = row.error;
    json["value_error"] = row.value_error;
  }
  if (row.seconds > 0) json["seconds"] = row.seconds;
  return json;
}

nlohmann::ordered_json PowerLawJson(const PowerLaw& law) {
  return {{"exponent", law.exponent}, {"standard_error", law.standard_error}};
}

}  // namespace

std::vector<Table> ComparisonTables(const Comparison& comparison) {
  std::vector<Table> tables = {FormulaTable(), RowTable(comparison), CrossoverTable(comparison)};
  if (!comparison.growth.empty()) tables.push_back(GrowthTable(comparison));
  return tables;
}

std::string ComparisonCsv(const Comparison& comparison) {
  std::vector<std::string> header = {"layer", "length", "width", "kernel", "heads"};
  for (const NamedNumber& number : Entries({})) {
    header.push_back(number.name);
    header.push_back("expected_" + number.name);
  }
  header.insert(header.end(), {"error", "value_error", "seconds"});
  std::string csv;
  AddLine(csv, header);
  for (const ComparisonRow& row : comparison.rows) AddLine(csv, CsvFields(row));
  return csv;
}

nlohmann::ordered_json ComparisonJson(const Comparison& comparison) {
  const ComparisonOptions& options = comparison.options;
  nlohmann::ordered_json json = {{"width", options.width},
                                 {"kernel", options.kernel},
                                 {"heads", options.heads},
                                 {"seed", options.seed},
                                 {"largest_error", comparison.largest_error},
                                 {"all_agree", comparison.AllAgree()},
                                 {"rows", nlohmann::ordered_json::array()},
                                 {"crossovers", nlohmann::ordered_json::array()},
                                 {"growth", nlohmann::ordered_json::array()}};
  for (const ComparisonRow& row : comparison.rows) json["rows"].push_back(RowJson(row));
  for (const Crossover& crossover : comparison.crossovers) {
    nlohmann::ordered_json entry = {{"dearer", crossover.dearer},
                                    {"than", crossover.than},
                                    {"multiply_adds", crossover.multiply_adds},
                                    {"seconds", nullptr},
                                    {"seconds_in_words", crossover.seconds_in_words}};
    if (crossover.seconds > 0) entry["seconds"] = crossover.seconds;
    json["crossovers"].push_back(std::move(entry));
  }
  for (const Growth& growth : comparison.growth) {
    nlohmann::ordered_json entry = {
        {"layer", growth.layer}, {"multiply_adds", PowerLawJson(growth.multiply_adds)}, {"seconds", nullptr}};
    if (options.measure_time) entry["seconds"] = PowerLawJson(growth.seconds);
    json["growth"].push_back(std::move(entry));
  }
  return json;
}

void AddComparison(const Comparison& comparison, const std::filesystem::path& directory, Report& report) {
  WriteFile(directory / "compare.csv", ComparisonCsv(comparison));
  WriteFile(directory / "compare.json", ComparisonJson(comparison).dump(2) + "\n");
  for (const Figure& figure : comparison.figures) report.Add(figure, WriteFigure(figure, directory));
  for (const Table& table : ComparisonTables(comparison)) report.Add(table);
}

}  // namespace heed::lab
