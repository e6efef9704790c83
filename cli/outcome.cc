#include "cli/outcome.h"

#include <fmt/core.h>

#include "lab/report/json.h"
#include "lab/report/printable.h"

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

}  // namespace heed::cli
