// The text to study when none is given.
#ifndef HEED_LAB_DATA_DEFAULT_TEXT_H_
#define HEED_LAB_DATA_DEFAULT_TEXT_H_

#include <string>

#include "lab/data/text.h"

namespace heed::lab {

// The text of the file, "-" for standard input; of no file the docstrings of CPython's library, which is then said on stderr
// unless `quiet`: 1.6 million characters of English that every CPython has, as python3 reads them from its sources, without
// those of tests and of installed packages. Their name says of which version. Throws FileError, also when there is no python3
// or its library has no sources.
Text TextOrDefault(const std::string& path, bool quiet);

}  // namespace heed::lab

#endif  // HEED_LAB_DATA_DEFAULT_TEXT_H_
