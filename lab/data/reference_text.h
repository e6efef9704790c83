// The text to study when none is given.
#ifndef HEED_LAB_DATA_REFERENCE_TEXT_H_
#define HEED_LAB_DATA_REFERENCE_TEXT_H_

#include <string>

#include "lab/data/text.h"

namespace heed::lab {

// The language reference that every CPython ships, pydoc_data/topics.py, as python3 reads it; its name says where it is from.
// Throws FileError when there is no python3 or it has no such module.
Text LanguageReference();

// The text of the file, "-" for standard input; of no file the language reference, which is then said on stderr unless `quiet`.
// Throws FileError.
Text TextOrReference(const std::string& path, bool quiet);

}  // namespace heed::lab

#endif  // HEED_LAB_DATA_REFERENCE_TEXT_H_
