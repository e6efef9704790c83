// Which sequence encoder and which positional encoding for a text, or for labelled sequences: the same small model with each,
// trained and measured.
#ifndef HEED_LAB_STUDY_STUDY_H_
#define HEED_LAB_STUDY_STUDY_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "lab/report/environment.h"
#include "lab/report/page.h"
#include "lab/runs/baseline.h"
#include "lab/runs/contest.h"
#include "lab/study/options.h"

namespace heed::lab {

struct SeriesData;
struct Text;
class LanguageModel;

// What the page and study.json tell of the data.
struct DataFacts {
  std::string name, fingerprint;
  nlohmann::ordered_json json;  // "data" of study.json
  // Paragraphs: what the data are, what all models share, how the data are cut into parts, and which columns leave the range of
  // the training part in the test part, empty where none does.
  std::string about, models, parts, drift;
  std::string blocks;          // what other data are drawn from: "these blocks"
  std::string beginning = {};  // of a text: some characters of its first line
  std::string split;           // split.csv: which sequences, or which blocks of a text, are in which part
};

// A question that a study asks of its data: an objective of a text, the goal of a table.
struct StudyQuestion {
  std::string name;     // "next character": begins the progress of its runs
  std::string title;    // "Predicting the next character"
  std::string purpose;  // "to predict the next character"
  std::string note;     // a sentence below the title; may be empty
};

// A contest for a question.
class StudyTask : public Contest {
 public:
  StudyQuestion question;
  std::string keeps;  // the folder of its winner, within the study's; empty: none is kept
  // What needs no model, on the same blocks; at least one. So many threads at most.
  virtual std::vector<Baseline> Baselines(int threads) const = 0;
  // Write a folder that answers later data: with the weights that a file holds, of the model's run whose outcome this is, or
  // with a baseline that can be kept. Throw FileError.
  virtual void KeepModel(const Entry& entry, const Outcome& run, const std::filesystem::path& weights,
                         const std::filesystem::path& folder) const = 0;
  virtual void KeepBaseline(const Baseline& baseline, const std::filesystem::path& folder) const = 0;
};

// A text or a table as a study takes it.
struct Subject {
  std::string words;  // behind "heed study": the file, and what tells how it is read; quoted where a shell needs it
  DataFacts facts;
  nlohmann::ordered_json settings;  // what all runs depend on beside the options
  std::vector<std::unique_ptr<StudyTask>> tasks;
};

// What is kept of a trained model beside its numbers; called side by side, in the thread of each training.
using ObserveModel = std::function<nlohmann::ordered_json(LanguageModel& model)>;

// Contests for the options' objectives, in order. Cuts the text into parts. Throws InvalidArgument that names the text or the
// option.
Subject SubjectOf(const Text& text, const StudyOptions& options, const ObserveModel& observe = nullptr);
// A contest for the goal. `words`: of the subject. `data` must outlive it. Throws InvalidArgument that names the option, and
// FileError that names the place of a number which is too large to compute with.
Subject SubjectOf(const SeriesData& data, const std::string& words, const StudyOptions& options);
// The same of several targets, a contest for each; their data must outlive it.
Subject SubjectOf(std::span<const SeriesData> data, const std::string& words, const StudyOptions& options);

struct StudiedTask {
  std::string id;
  StudyQuestion question;
  std::vector<Baseline> baselines;
  ContestResult contest;

  const Baseline& BestBaseline() const;  // by the validation part
};

struct StudyResult {
  StudyOptions options;
  std::string words, command;  // see Subject; the command that gives the same numbers
  std::filesystem::path folder;
  Environment environment;
  DataFacts data;
  std::vector<StudiedTask> tasks;  // at least one, the first of which the page answers first
  std::string kept = {};           // what folder/model holds: "the GRU", "ridge regression"
};

// Measures what needs no model, then holds a contest for every task, and writes what the first is to be answered with into
// folder/model: the model that is to be taken, or the best baseline where that loses no more and can be kept; with the option
// "all" also everything else that was studied, into folder/models. Every finished run is kept in folder/runs, the pilot's
// among them; the next study with the same settings finds it there. From the pilot on, the result is the same for any number
// of threads, on any machine that computes the same bits. Throws InvalidArgument that names the option, or `out` where the
// folder holds the study of another file, FileError, Divergence where every model of a task diverges, and Interruption on
// Ctrl-C.
StudyResult RunStudy(const Subject& subject, const StudyOptions& options, const std::filesystem::path& folder);

// What a training of one model measured, by the columns of its contest.
struct TrainedOne {
  SizedContender model;
  std::vector<Column> columns;
  Outcome outcome;
};

// Trains the one model that the options' encoder and position name for options.all_steps at the one rate, as a study of the
// subject with these options would with its first seed, to the same bits, and writes the folder that the study would keep it
// in. An interruption leaves nothing. Throws as RunStudy does.
TrainedOne TrainOne(const Subject& subject, const StudyOptions& options, const std::filesystem::path& folder);

// Writes report.html, whose path it returns, study.json, runs.csv and the figures, each beside and renamed; figures that the
// folder's last study wrote and this one does not are removed. The page names those of `beside`. Throws FileError.
std::filesystem::path WriteStudy(const StudyResult& result, const std::vector<PageLink>& beside,
                                 const std::filesystem::path& folder);

// What is in study.json; there also "files", those that WriteStudy wrote.
nlohmann::ordered_json StudyJson(const StudyResult& result);

// What study.json tells of the study whose results lie in a folder.
struct EarlierStudy {
  std::string kind, name, fingerprint;  // of its data
  std::vector<std::string> files = {};  // beside report.html
};
// Nothing where there is no study.json, or none that can be read.
std::optional<EarlierStudy> EarlierStudyIn(const std::filesystem::path& folder);

}  // namespace heed::lab

#endif  // HEED_LAB_STUDY_STUDY_H_
