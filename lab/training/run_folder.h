// The folder of a training run.
//
//   config.json             options, vocabulary, identity of the text
//   model.safetensors       the weights, for eval and generate
//   checkpoint.safetensors  weights, moments and generators: all that a resumed run needs, in one file, so that it is never
//                           half old and half new
//   metrics.jsonl           one line for each report
//
// Every file is written beside and renamed.
#ifndef HEED_LAB_TRAINING_RUN_FOLDER_H_
#define HEED_LAB_TRAINING_RUN_FOLDER_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lab/data/text.h"
#include "lab/report/result_store.h"
#include "lab/training/options.h"

namespace heed::lab {

class Ranks;

inline constexpr char kOpens[] = "rank 0, which opens the folder";  // what ranks wait for

// Tells whether a text is the one that a run began with.
struct TextIdentity {
  std::string name;
  int64_t characters = 0;
  std::string fingerprint;  // FNV-1a, 64 bits, of the code points
};
TextIdentity Identify(const Text& text);

struct RunConfig {
  TrainOptions options;
  Vocabulary vocabulary;
  TextIdentity text;
  int threads = 0;
  nlohmann::ordered_json reached = {};  // what a study measured on its test part, for people; null where there was none
};

// The report of a training at a step.
struct Metrics {
  int64_t step;
  double train_loss;         // mean over the steps since the previous report, nats per predicted character
  double val_loss;           // mean over the whole validation split
  double tokens_per_second;  // of training alone, since the previous report or the start of the process
};

class RunFolder {
 public:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path config() const { return path_ / "config.json"; }
  std::filesystem::path model() const { return path_ / "model.safetensors"; }
  std::filesystem::path checkpoint() const { return path_ / "checkpoint.safetensors"; }
  std::filesystem::path metrics() const { return path_ / "metrics.jsonl"; }

  // All throw FileError that names the file and what is wrong. What is read is validated.
  void WriteConfig(const RunConfig& config) const;
  // On every rank as rank 0 finds it, where there are ranks.
  RunConfig ReadConfig(Ranks* ranks = nullptr) const;
  void WriteMetrics(const std::vector<Metrics>& metrics) const;
  // The lines up to `last_step`; later ones are not part of the checkpoint. None where there is no file.
  std::vector<Metrics> ReadMetrics(int64_t last_step) const;

 private:
  std::filesystem::path path_;
};

// Where an experiment on a text keeps its runs, below the folder of its page; nothing without a folder.
std::optional<ResultStore> StoreOf(const std::filesystem::path& folder, const Text& text);

// Checks that a folder is still the one in which work began: keeps it open, so that no other one can take its place unnoticed.
class FolderWatch {
 public:
  // The folder `path`, in which the file `file` marks that it is whole. Throws FileError where there is none.
  FolderWatch(std::filesystem::path path, std::string file);
  ~FolderWatch();
  FolderWatch(const FolderWatch&) = delete;
  FolderWatch& operator=(const FolderWatch&) = delete;

  // Throws FileError that names the folder where the path leads to another one or to none, or the file is gone.
  void Check() const;

 private:
  std::filesystem::path path_;
  std::string file_;
  int descriptor_;
};

}  // namespace heed::lab

#endif  // HEED_LAB_TRAINING_RUN_FOLDER_H_
