#include "lab/training/run_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>
#include <utility>

#include <nlohmann/json.hpp>

#include "heed/error.h"
#include "lab/options/fields.h"
#include "lab/report/environment.h"
#include "lab/report/file.h"
#include "lab/report/json.h"
#include "lab/report/printable.h"
#include "lab/training/ranks.h"

namespace heed::lab {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;               // of config.json
constexpr std::size_t kMostShown = 500;  // bytes of what a value is said to be
constexpr double kEarlierZeroRate = 1;   // of runs whose config.json does not tell it
// What config.json of an earlier version does not tell.
bool IsLater(const std::string& name) {
  return name == "zero_rate" || name == "schedule" || name == "precision" || name == "query_key_norm" || name == "penalty";
}

Json ToJson(const RunConfig& config) {
  TrainOptions options = config.options;
  Json json = {
      {"format", kFormat},
      {"model", SettingsOf(FieldsOf(options.model))},
      {"training", SettingsOf(FieldsOf(options))},
      {"vocabulary", EncodeUtf8(config.vocabulary.characters())},
      {"text", {{"name", config.text.name}, {"characters", config.text.characters}, {"fingerprint", config.text.fingerprint}}},
      {"threads", config.threads}};
  if (!config.reached.is_null()) json["reached"] = config.reached;
  return json;
}

RunConfig FromJson(const Json& json) {
  if (!json.is_object()) throw FieldError{"the file is not a JSON object"};
  int64_t format = 0, threads = 0;
  ReadField(json, "format", format);
  if (json.value("kind", Json()) == "counts") throw FieldError{"it only counts; heed generate and heed eval open it"};
  if (json.contains("kind")) throw FieldError{"it is not a language model; heed predict answers with it"};
  if (format != kFormat) throw FieldError{"'format' is " + std::to_string(format) + "; this program reads 1"};
  RunConfig config;
  const Json &model = ObjectIn(json, "model"), &training = ObjectIn(json, "training"), &text = ObjectIn(json, "text");
  ReadFields(model, FieldsOf(config.options.model), IsLater);
  config.options.zero_rate = kEarlierZeroRate;
  ReadFields(training, FieldsOf(config.options), IsLater);
  Validate(config.options);
  std::string vocabulary;
  ReadField(json, "vocabulary", vocabulary);
  const Text characters = DecodeText("vocabulary", vocabulary);
  config.vocabulary = Vocabulary(characters.characters);
  if (config.vocabulary.characters() != characters.characters)
    throw FieldError{"'vocabulary' is not sorted and without repetition"};
  ReadField(text, "name", config.text.name);
  ReadField(text, "characters", config.text.characters);
  ReadField(text, "fingerprint", config.text.fingerprint);
  ReadField(json, "threads", threads);
  config.threads = static_cast<int>(threads);
  return config;
}

Metrics ParseMetrics(const std::string& line) {
  const Json json = ParseSettings(line);
  if (!json.is_object()) throw FieldError{"it is not a JSON object"};
  Metrics metrics{};
  ReadField(json, "step", metrics.step);
  ReadField(json, "train_loss", metrics.train_loss);
  ReadField(json, "val_loss", metrics.val_loss);
  ReadField(json, "tokens_per_second", metrics.tokens_per_second);
  return metrics;
}

}  // namespace

TextIdentity Identify(const Text& text) {
  std::string bytes;  // of each code point, the lowest first
  bytes.reserve(4 * text.characters.size());
  for (const char32_t character : text.characters) {
    for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>((character >> shift) & 0xffu);
  }
  return {text.name, static_cast<int64_t>(text.characters.size()), Fingerprint(bytes)};
}

void RunFolder::WriteConfig(const RunConfig& config) const { WriteFile(this->config(), JsonText(ToJson(config), 2) + "\n"); }

RunConfig RunFolder::ReadConfig(Ranks* ranks) const {
  std::string contents;
  OnFirst(
      ranks, [&] { contents = ReadFile(config(), kMostSettingsBytes); }, kOpens);
  if (ranks != nullptr) contents = ranks->FromFirst(contents, kOpens);
  try {
    return FromJson(ParseSettings(contents));
  } catch (const FieldError& error) {
    throw FileError(config().string() + ": " + error.message);
  } catch (const Error& error) {
    throw FileError(config().string() + ": " + Printable(error.what(), kMostShown));
  }
}

void RunFolder::WriteMetrics(const std::vector<Metrics>& metrics) const {
  std::string lines;
  for (const Metrics& m : metrics) {
    const Json line = {
        {"step", m.step}, {"train_loss", m.train_loss}, {"val_loss", m.val_loss}, {"tokens_per_second", m.tokens_per_second}};
    lines += JsonText(line) + "\n";
  }
  WriteFile(this->metrics(), lines);
}

std::vector<Metrics> RunFolder::ReadMetrics(int64_t last_step) const {
  std::vector<Metrics> metrics;
  if (!std::filesystem::exists(this->metrics())) return metrics;
  std::istringstream lines(ReadFile(this->metrics()));
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    try {
      const Metrics parsed = ParseMetrics(line);
      if (parsed.step <= last_step) metrics.push_back(parsed);
    } catch (const FieldError& error) {
      throw FileError(this->metrics().string() + ": line " + std::to_string(number) + ": " + error.message);
    }
  }
  return metrics;
}

std::optional<ResultStore> StoreOf(const std::filesystem::path& folder, const Text& text) {
  if (folder.empty()) return std::nullopt;
  nlohmann::ordered_json shared = {{"text", Identify(text).fingerprint}};
  shared.update(ResultSettings(ThisEnvironment()));
  return ResultStore(folder / "runs", shared);
}

FolderWatch::FolderWatch(std::filesystem::path path, std::string file)
    : path_(std::move(path)), file_(std::move(file)), descriptor_(open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (descriptor_ < 0) throw FileError(path_.string() + ": the folder cannot be opened: " + std::strerror(errno));
}

FolderWatch::~FolderWatch() { close(descriptor_); }

void FolderWatch::Check() const {
  struct stat begun {
  }, now{}, marker{};
  const bool same = fstat(descriptor_, &begun) == 0 && stat(path_.c_str(), &now) == 0 && begun.st_dev == now.st_dev &&
                    begun.st_ino == now.st_ino;
  if (!same) throw FileError(path_.string() + ": the folder was removed or replaced during the work; nothing more is written");
  if (fstatat(descriptor_, file_.c_str(), &marker, 0) != 0) {
    throw FileError((path_ / file_).string() + ": the file was removed during the work; nothing more is written");
  }
}

}  // namespace heed::lab
