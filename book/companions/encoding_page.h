// The page on positions beside a study: the encoding as the book draws it, and what the schemes of attention have learnt.
#ifndef HEED_BOOK_COMPANIONS_ENCODING_PAGE_H_
#define HEED_BOOK_COMPANIONS_ENCODING_PAGE_H_

#include <filesystem>

#include "lab/report/page.h"
#include "lab/study/study.h"

namespace heed::lab {

// report.html, positions.json and the figures, each beside and renamed. `link`: relative to `folder`. Throws FileError.
PageLink WriteEncoding(const StudyResult& result, const std::filesystem::path& folder, const std::filesystem::path& link);

}  // namespace heed::lab

#endif  // HEED_BOOK_COMPANIONS_ENCODING_PAGE_H_
