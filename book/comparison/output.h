// A comparison as figures and tables to read, as files to compute with and as a page.
#ifndef HEED_BOOK_COMPARISON_OUTPUT_H_
#define HEED_BOOK_COMPARISON_OUTPUT_H_

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "book/comparison/comparison.h"
#include "lab/report/page.h"

namespace heed::lab {

// Which of five tokens reads which, drawn from traced runs: two layers of a centred convolution with a window of three, a
// recurrence, self-attention (compare d2l, section 11.6, figure 11.6.1).
Figure ArchitecturesFigure();
// The same of the attention models that came before the Transformer: lstmn, decomposable, self-attentive, intra-decoder.
Figure AttentionModelsFigure();

// The drawings, the second where one of its models is compared; over the length (with at least two of them) operations, the
// terms of self-attention, sequential steps, span, paths, memory and, when measured, time and speed-up; over the distance, when
// measured, influence.
std::vector<Figure> ComparisonFigures(const Comparison& comparison);

// The formulas in symbols; every count at the longest length; multiply-adds, span, hops by length (not with a single one); time
// by length for each number of threads; where costs cross; exponents; influence. What was not measured has no table.
std::vector<Table> ComparisonTables(const Comparison& comparison);

// What the counts, paths, times and crossings come to, a sentence or two each; without those that were not measured.
std::vector<std::string> ComparisonFindings(const Comparison& comparison);

// One line a row: every number as counted ("multiply_adds") and by formula ("expected_multiply_adds"), error, value_error and
// the seconds on each number of threads ("seconds_on_2"). What was not counted is an empty field; a path that never connects is
// -1.
std::string ComparisonCsv(const Comparison& comparison);

// The same as objects; null where nothing was counted or measured, or a path never connects.
nlohmann::ordered_json ComparisonJson(const Comparison& comparison);

// Findings, figures and tables as a page, whose path it returns, with compare.csv and compare.json beside it; its figures say
// that the command of the options made them. FileError.
std::filesystem::path WriteComparison(const Comparison& comparison, const std::filesystem::path& folder);

}  // namespace heed::lab

#endif  // HEED_BOOK_COMPARISON_OUTPUT_H_
