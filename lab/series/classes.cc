#include "lab/series/classes.h"

#include <algorithm>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "heed/error.h"
#include "heed/shown_name.h"
#include "lab/series/csv_table.h"

namespace heed::lab {
namespace {

constexpr std::size_t kMostClasses = 1000;

}  // namespace

std::vector<std::string> ClassNames(const std::string& file, const std::set<std::string>& names) {
  if (names.size() < 2) throw FileError(file + ": the target has only one class; expected two or more");
  if (names.size() > kMostClasses) {
    throw FileError(file + ": the target has " + std::to_string(names.size()) + " classes, more than " +
                    std::to_string(kMostClasses) + "; is it a number to predict (--goal regression)?");
  }
  std::vector<std::string> sorted(names.begin(), names.end());
  const auto number = [](const std::string& text) { return NumberOf(text, /*decimal_comma=*/false); };
  if (std::all_of(sorted.begin(), sorted.end(), number)) {
    std::stable_sort(sorted.begin(), sorted.end(),
                     [&](const std::string& a, const std::string& b) { return *number(a) < *number(b); });
  }
  return sorted;
}

std::vector<std::string> NotesOnRareClasses(const SeriesData& data) {
  constexpr std::size_t kMostNamed = 3;
  if (data.classes.empty()) return {};
  std::vector<const SeriesSequence*> only(data.classes.size());
  std::vector<int64_t> counts(data.classes.size());
  for (const SeriesSequence& sequence : data.sequences) {
    for (const double target : sequence.targets) {
      const auto label = static_cast<std::size_t>(target);
      ++counts[label], only[label] = &sequence;
    }
  }
  std::vector<std::string> rare;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 1)
      rare.push_back(fmt::format("'{}' in sequence '{}'", ShownName(data.classes[i]), ShownName(only[i]->id)));
  }
  if (rare.empty()) return {};
  const std::size_t more = rare.size() - std::min(rare.size(), kMostNamed);
  rare.resize(rare.size() - more);
  return {fmt::format("A single {} has the class {}{}. No model can learn from it and be tested on it too; is it mistyped?",
                      data.each_step ? "row" : "sequence", fmt::join(rare, ", "),
                      more == 0 ? "" : fmt::format(", and so have {} more classes", more))};
}

}  // namespace heed::lab
