// The text to study when none is given.
#ifndef HEED_LAB_STUDY_REFERENCE_TEXT_H_
#define HEED_LAB_STUDY_REFERENCE_TEXT_H_

#include "lab/data/text.h"

namespace heed::lab {

// The language reference that every CPython ships, pydoc_data/topics.py, as python3 reads it; its name says where it is from.
// Throws FileError when there is no python3 or it has no such module.
Text LanguageReference();

}  // namespace heed::lab

#endif  // HEED_LAB_STUDY_REFERENCE_TEXT_H_
