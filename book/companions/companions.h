// The book's pages beside a study of a text: positions by themselves, single layers, deep stacks and tasks.
#ifndef HEED_BOOK_COMPANIONS_COMPANIONS_H_
#define HEED_BOOK_COMPANIONS_COMPANIONS_H_

#include <filesystem>
#include <optional>
#include <vector>

#include <nlohmann/json.hpp>

#include "book/companions/options.h"
#include "book/positions/positions.h"
#include "lab/data/text.h"
#include "lab/report/page.h"
#include "lab/study/study.h"

namespace heed::lab {

// What attention's scheme has learnt in a run, for RunStudy, which keeps it with each run for the page on positions. In the
// first layer where the scheme acts inside of attention; null where it trains nothing.
nlohmann::ordered_json LearntTable(LanguageModel& model);

// The same back. Nothing for null; throws nlohmann::json::exception or InvalidArgument where the JSON holds no table.
std::optional<SchemeTable> LearntTableOf(const nlohmann::ordered_json& json);

// The page on positions: the encoding as the book draws it, and what the schemes of attention have learnt. report.html,
// positions.json and the figures, each beside and renamed. `link`: relative to `folder`. Throws FileError.
PageLink WriteEncoding(const StudyResult& result, const std::filesystem::path& folder, const std::filesystem::path& link);

// Measures and writes the pages folder/positions, folder/compare and, where the options ask for them, folder/depth and
// folder/tasks. Finished stacks and runs are kept there, and the next call with the same settings finds them. Returns what the
// study's page names. Throws InvalidArgument that names the option, FileError, and Interruption on Ctrl-C.
std::vector<PageLink> WriteCompanions(const Text& text, const StudyResult& result, const CompanionOptions& options,
                                      const std::filesystem::path& folder);

}  // namespace heed::lab

#endif  // HEED_BOOK_COMPANIONS_COMPANIONS_H_
