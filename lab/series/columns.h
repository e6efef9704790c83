// Finds what kind of values the columns of a table hold.
#ifndef HEED_LAB_SERIES_COLUMNS_H_
#define HEED_LAB_SERIES_COLUMNS_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "lab/series/csv_table.h"
#include "lab/series/data.h"

namespace heed::lab {

inline constexpr std::size_t kMostCategories = 100;  // of a column

// What a column's cells are, without a role. `as_names`: they are texts, even where they are numbers. Where texts stand among
// numbers they are texts too, and `mixed` is the row of the first of them, from 0.
struct ColumnLook {
  SeriesColumn column;
  int64_t mixed = -1;
};
ColumnLook LookAt(const CsvTable& table, int64_t column, bool as_names);

// A column that is to be a feature. Throws FileError that names the row and what helps: texts among numbers, dates, more
// categories than kMostCategories, one number in two spellings where its cells are names, days as 19580329.
SeriesColumn FeatureOf(const CsvTable& table, int64_t column, bool as_names);

// Refuses one number in two spellings, as 1 and 1.0, where cells are names. Throws FileError that names both rows.
void RequireOneSpelling(const CsvTable& table, int64_t column);
// Refuses a column of days as 19580331 alone, which would be taken for numbers: the next day is 19580401, 70 more; `months`: of
// months as 195803 too. Throws FileError that names the first row and says how to write it.
void RequireNoDates(const CsvTable& table, int64_t column, bool months = false);

// What comes first in a column's dates as 31/12/2000: as `told`, or as days beyond 12 tell. Throws FileError that names a row:
// none tells, or two contradict each other.
DateOrder OrderOfDates(const CsvTable& table, int64_t column, DateOrder told);

// What a reader should know of a column that lacks so many of its values; foretold: it is the target of a forecast.
std::string NoteOnGaps(const std::string& name, int64_t missing, int64_t of, bool foretold);

// Sentences on the form of the table and on its columns that a reader should know: separators, gaps, categories, constants,
// what is not read. For data whose columns are known.
std::vector<std::string> NotesOn(const CsvTable& table, const SeriesData& data);

// Sorted: numbers by value where all are, else by the alphabet. Throws FileError that begins with `file` for fewer than two and
// for more than 1000.
std::vector<std::string> ClassNames(const std::string& file, const std::set<std::string>& names);

// Of a classification: the classes with a single example, which can train a model or test it, not both.
std::vector<std::string> NotesOnRareClasses(const SeriesData& data);

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_COLUMNS_H_
