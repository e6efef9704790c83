// Which of the book's pages lie beside a study, and how large what they measure is.
#ifndef HEED_BOOK_COMPANIONS_OPTIONS_H_
#define HEED_BOOK_COMPANIONS_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "book/depth/options.h"
#include "book/tasks/options.h"
#include "lab/options/fields.h"
#include "lab/study/study.h"

namespace heed::lab {

struct CompanionOptions {
  std::vector<int64_t> compared_lengths;  // of single layers
  // Of deep stacks, whose page is there where attention is among the study's encoders and deepest is not 0. No stack has more
  // layers than `deepest`.
  DepthOptions depth;
  int64_t deepest = 0;
  TaskOptions tasks;  // whose page is there where it has any
};

// "quick", "default" or "long", by the table in docs/study.md; throws InvalidArgument that lists them.
CompanionOptions CompanionBudget(const std::string& budget);

// Of deep stacks and tasks, with what the study decides: encoders, positions, seed, threads and quiet, its steps where they are
// given, its context and validation at most.
std::optional<DepthOptions> DeepStacks(const CompanionOptions& options, const StudyOptions& study);
std::optional<TaskOptions> Tasks(const CompanionOptions& options, const StudyOptions& study);

Fields FieldsOf(CompanionOptions& options);

// Throws InvalidArgument that names the option and what it may be.
void Validate(const CompanionOptions& options, const StudyOptions& study);

}  // namespace heed::lab

#endif  // HEED_BOOK_COMPANIONS_OPTIONS_H_
