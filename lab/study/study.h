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
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "lab/options/fields.h"
#include "lab/report/environment.h"
#include "lab/report/page.h"
#include "lab/report/prose.h"
#include "lab/runs/contest.h"
#include "lab/runs/measurements.h"
#include "lab/training/course.h"
#include "lab/training/options.h"

namespace heed::lab {

enum class StudyKind {
  kText,   // of a text, whose characters are predicted
  kTable,  // of labelled sequences of numbers
};

struct StudyOptions {
  StudyKind kind = StudyKind::kText;
  std::string budget = "default";
  std::vector<std::string> encoders = {};    // of EncoderNames()
  std::vector<std::string> positions = {};   // of PositionSchemeNames()
  int64_t layers = 2, heads = 4, width = 0;  // of every model
  int64_t context = 0;                       // characters of a training window; of a forecast: steps of a window
  int64_t batch = 0;                         // windows, or sequences, a step
  double seconds = 0;                        // of one core, of each training
  int64_t all_steps = 0;                     // of each training instead; 0: by time
  std::vector<double> rates = {};            // learning rates to choose among, rising
  std::vector<double> step_seconds = {};     // by objective and model: what the pilot is to have measured, see Hold
  double for_seconds = 0;                    // of one core, which the answer is for beside `seconds`; 0: for these alone
  double tolerance = 0.01;                   // see ContestOptions
  int64_t seeds = 3;                         // runs of each model, in the mean, with seeds seed, seed + 1, ..
  uint64_t seed = 0;
  std::string keep = "winner";  // or "all": which models are kept in folders of their own
  int threads = 1;              // runs side by side; each computes with one thread, so the results do not depend on it
  bool quiet = true;            // no messages and no progress on stderr

  // Of a text.
  std::vector<std::string> objectives = {};  // of "causal", "masked"
  int64_t validation = 0, test = 0;          // characters of these parts that are evaluated, at most
  // Of a table, see SeriesCut.
  int64_t horizon = 1, longest = 1024;
  double validation_share = 0.2;
};

// "quick", "default" or "long", by the tables in docs/study.md and docs/series.md; throws InvalidArgument that lists them.
StudyOptions BudgetOptions(const std::string& budget, StudyKind kind = StudyKind::kText);

Fields FieldsOf(StudyOptions& options);

// Throws InvalidArgument that names the option and what it may be.
void Validate(const StudyOptions& options);

// How a model is trained with so many steps at this rate.
TrainOptions TrainingOf(const StudyOptions& options, int64_t steps, double rate, uint64_t seed);

// The command that gives the same numbers, in this folder. `words`: see Subject.
std::string CommandOf(const StudyOptions& options, const std::string& words, const std::filesystem::path& folder);

struct SeriesCut;
struct SeriesData;
struct SeriesRange;
struct Text;
class LanguageModel;
class Vocabulary;

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

// A model with the data of a study.
class StudyLearner : public Learner {
 public:
  // The model as it then is on the test part.
  virtual Outcome Measured() = 0;
};

// A contest for a question.
class StudyTask : public Contest {
 public:
  explicit StudyTask(StudyOptions options) : options_(std::move(options)) {}
  std::unique_ptr<Training> Begin(const Trial& trial) const override;
  double StepSeconds(const SizedContender& model) const override;

  StudyQuestion question;
  std::string keeps;  // the folder of its winner, within the study's; empty: none is kept
  // What needs no model, on the same blocks; at least one. So many threads at most.
  virtual std::vector<Baseline> Baselines(int threads) const = 0;
  // Write a folder that answers later data: with the weights that a file holds, of the model's run whose outcome this is, or
  // with a baseline that can be kept. Throw FileError.
  virtual void KeepModel(const Entry& entry, const Outcome& run, const std::filesystem::path& weights,
                         const std::filesystem::path& folder) const = 0;
  virtual void KeepBaseline(const Baseline& baseline, const std::filesystem::path& folder) const = 0;

 protected:
  virtual std::unique_ptr<StudyLearner> LearnerOf(const Trial& trial) const = 0;

  StudyOptions options_;
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

// A sentence or more, computed from measurements: other measurements, other sentences.
struct Finding {
  std::string question, answer;
};

// The contender that is to be taken.
const Entry& TakenOf(const ContestResult& contest);

// How the model that is to be taken and the best baseline compare, as the best of all models that were trained.
struct Worth : Compared {
  // Of the model: "ahead" or "behind" the baseline; "not yet", where it is behind and a longer training may change that;
  // "open", where chance may; "disputed", where it is ahead and another baseline is better.
  std::string answer;
  std::optional<Overtaking> later;  // where it is "not yet"
};
Worth WorthOf(const StudiedTask& task);
// Whether that model is worth training. `worth`: of the task.
std::string WorthFinding(const StudyResult& result, const StudiedTask& task, const Worth& worth);
// Which model to take, at what price, and which are as good.
std::string ChoiceFinding(const StudyResult& result, const StudiedTask& task, const Worth& worth);
// Whether those who lead at the training length lead in longer windows too; empty where there are none.
std::string LengthFinding(const StudyResult& result, const StudiedTask& task);
// What the study leaves open.
std::string LimitsFinding(const StudyResult& result);

// Whether attention without positions gets beyond the frequencies of characters at filling in hidden ones, next to the best
// scheme. Empty where attention without positions did not learn that.
std::string OrderFinding(const StudyResult& result);

// What to type to use what folder/model holds.
std::string UseCommand(const StudyResult& result);
// What to type where this budget does not decide and more training helps: the study of those in the running with four times the
// time; else empty.
std::string NextCommand(const StudyResult& result);

// Whether it is worth a model, and which, with --for too; of the first task it is what the page begins with.
std::string AnswerTo(const StudyResult& result, const StudiedTask& task);

// Question by question; those that the chosen models do not answer are left out.
std::vector<Finding> Conclusion(const StudyResult& result);

const Prose& TellStudy();  // the texts of a study, study_prose.txt

// Lengths at which every model is evaluated, in units of the training length.
inline constexpr int64_t kLengthMultiples[] = {1, 2, 4};

// The largest share by which the parameters of two models may differ.
inline constexpr double kLargestDeviation = 0.05;

// The models of one objective, in the order of the options. The widths of their feed-forward sublayers are chosen so that each
// has the parameters of attention without positions and a feed-forward width of 4 * width. Throws InvalidArgument when the
// width leaves no such choice within kLargestDeviation.
Models PlanModels(const StudyOptions& options, Objective objective, const Vocabulary& vocabulary);

ModelOptions ModelOf(const StudyOptions& options, Objective objective, const Contender& contender, int64_t ffn_width);

// "loss" on the test part in nats per character, by the characters of a window, NaN where a learned table ends;
// "validation_loss" at the training length.
std::vector<Column> TextColumns(const StudyOptions& options);

SeriesCut CutOf(const StudyOptions& options);

// "loss" on the test part: nats, or the mean squared error in the target's own units; of a classification "accuracy"; in the
// same units "validation_loss".
std::vector<Column> TableColumns(bool classifies, const std::string& target = {});

// Which columns leave the range of the training part in the test part, how far and how many; empty where none does.
std::string DriftFinding(const std::vector<SeriesRange>& left);

}  // namespace heed::lab

#endif  // HEED_LAB_STUDY_STUDY_H_
