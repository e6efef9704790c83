#include "cli/outcome.h"

#include <algorithm>
#include <string>

#include <fmt/core.h>

#include "lab/report/json.h"
#include "lab/report/printable.h"
#include "lab/report/svg.h"

namespace heed::cli {

void Show(const Context& context, nlohmann::ordered_json result, const std::filesystem::path& page,
          const std::function<void()>& print_text) {
  if (context.json) {
    if (!page.empty()) result["page"] = page.string();
    fmt::print("{}\n", lab::JsonText(result, 2));
  } else {
    print_text();
  }
  if (!page.empty() && !context.quiet) fmt::print(stderr, "wrote {}\n", lab::Printable(page.string()));
}

void PrintFindings(const std::vector<lab::Finding>& findings) {
  for (const lab::Finding& finding : findings) {
    fmt::print("{}\n  {}\n", lab::PrintableLines(finding.question), lab::PrintableLines(finding.answer));
  }
}

void PrintTable(const lab::Table& given) {
  lab::Table table = given;
  for (std::string& title : table.header) title = lab::Printable(title);
  for (std::vector<std::string>& row : table.rows)
    std::ranges::transform(row, row.begin(), [](const std::string& cell) { return lab::Printable(cell); });
  std::vector<int> widths;
  widths.reserve(table.header.size());
  for (const std::string& title : table.header) widths.push_back(lab::CountCharacters(title));
  for (const std::vector<std::string>& row : table.rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], lab::CountCharacters(row[i]));
  }
  const auto print = [&](const std::vector<std::string>& row) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - lab::CountCharacters(row[i]), ' ');
      line += i == 0 ? row[i] + space : "  " + space + row[i];
    }
    fmt::print("  {}\n", line);
  };
  fmt::print("{}\n", lab::PrintableLines(table.caption));
  print(table.header);
  for (const std::vector<std::string>& row : table.rows) print(row);
  fmt::print("\n");
}

}  // namespace heed::cli
