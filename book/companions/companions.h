// The book's pages beside a study of a text: positions by themselves, single layers, deep stacks and tasks.
#ifndef HEED_BOOK_COMPANIONS_COMPANIONS_H_
#define HEED_BOOK_COMPANIONS_COMPANIONS_H_

#include <filesystem>
#include <vector>

#include "book/companions/options.h"
#include "lab/data/text.h"
#include "lab/report/page.h"
#include "lab/study/study.h"

namespace heed::lab {

// Measures and writes the pages folder/positions, folder/compare and, where the options ask for them, folder/depth and
// folder/tasks. Finished stacks and runs are kept there, and the next call with the same settings finds them. Returns what the
// study's page names. Throws InvalidArgument that names the option, FileError, and Interruption on Ctrl-C.
std::vector<PageLink> WriteCompanions(const Text& text, const StudyResult& result, const CompanionOptions& options,
                                      const std::filesystem::path& folder);

}  // namespace heed::lab

#endif  // HEED_BOOK_COMPANIONS_COMPANIONS_H_
