// Which sequence encoder and which positional encoding for a text: the same small model with each, trained and measured.
#ifndef HEED_LAB_STUDY_STUDY_H_
#define HEED_LAB_STUDY_STUDY_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "lab/data/ngrams.h"
#include "lab/data/text.h"
#include "lab/report/environment.h"
#include "lab/report/page.h"
#include "lab/runs/contest.h"
#include "lab/study/options.h"
#include "lab/training/run_folder.h"

namespace heed::lab {

class LanguageModel;

struct StudyResult {
  StudyOptions options;
  std::string command;  // that gives the same numbers
  std::string path;     // of the text, as it was given; empty: the language reference
  std::filesystem::path folder;
  Environment environment;
  TextIdentity text;
  int64_t vocabulary = 0;
  int64_t training = 0, validation = 0, test = 0, block = 0;  // characters; of validation and test those that were evaluated
  CountedText counted;                                        // on the test part, block by block
  std::vector<ContestResult> contests;                        // of the options' objectives, in order; see StudyColumns

  // Nothing where it was not studied.
  const ContestResult* Of(Objective objective) const;
};

// What is kept of a trained model beside its numbers; called side by side, in the thread of each training.
using ObserveModel = std::function<nlohmann::ordered_json(LanguageModel& model)>;

// Holds a contest for every objective. Every finished run is kept in folder/runs, the pilot's among them; the next study with
// the same settings finds it there. From the pilot on, the result is the same for any number of threads, on any machine that
// computes the same bits. Throws InvalidArgument that names the option or the text, FileError, Divergence where every model of
// an objective diverges, and Interruption on Ctrl-C.
StudyResult RunStudy(const Text& text, const StudyOptions& options, const std::filesystem::path& folder,
                     const ObserveModel& observe = nullptr);

// What was kept of the run of a model with a seed, counted from 0; null where that is nothing.
nlohmann::ordered_json ObservedOf(const Measurements& measured, const Contender& model, std::size_t seed);

// Writes report.html, whose path it returns, study.json, runs.csv and the figures, each beside and renamed. The page names
// those of `beside`. Throws FileError.
std::filesystem::path WriteStudy(const StudyResult& result, const std::vector<PageLink>& beside,
                                 const std::filesystem::path& folder);

// What is in study.json; `whole`: with the training loss over the steps of every run.
nlohmann::ordered_json StudyJson(const StudyResult& result, bool whole);

}  // namespace heed::lab

#endif  // HEED_LAB_STUDY_STUDY_H_
