// The classes of a target: what they are called and how often they occur.
#ifndef HEED_LAB_SERIES_CLASSES_H_
#define HEED_LAB_SERIES_CLASSES_H_

#include <set>
#include <string>
#include <vector>

#include "lab/series/data.h"

namespace heed::lab {

// Sorted: numbers by value where all are, else by the alphabet. Throws FileError that begins with `file` for fewer than two and
// for more than 1000.
std::vector<std::string> ClassNames(const std::string& file, const std::set<std::string>& names);

// Of a classification: the classes with a single example, which can train a model or test it, not both.
std::vector<std::string> NotesOnRareClasses(const SeriesData& data);

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_CLASSES_H_
