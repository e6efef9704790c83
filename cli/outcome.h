// What commands print.
#ifndef HEED_CLI_OUTCOME_H_
#define HEED_CLI_OUTCOME_H_

#include <filesystem>
#include <functional>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "lab/report/page.h"
#include "lab/study/study.h"

namespace heed::cli {

// Prints the result to stdout, as JSON with the page in it or as print_text does, and to stderr where the page is. `page` is
// empty where none was written.
void Show(const Context& context, nlohmann::ordered_json result, const std::filesystem::path& page,
          const std::function<void()>& print_text);

// Questions, and their answers below them.
void PrintFindings(const std::vector<lab::Finding>& findings);

// To stdout: the caption, then the first column to the left and the others to the right.
void PrintTable(const lab::Table& table);

}  // namespace heed::cli

#endif  // HEED_CLI_OUTCOME_H_
