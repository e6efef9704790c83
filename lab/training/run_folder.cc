#include "lab/training/run_folder.h"

#include <limits>
#include <sstream>
#include <string_view>
#include <variant>

#include <nlohmann/json.hpp>

#include "heed/error.h"
#include "lab/report/environment.h"
#include "lab/report/file.h"
#include "lab/report/fingerprint.h"
#include "lab/report/json.h"
#include "lab/report/printable.h"

namespace heed::lab {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;  // of config.json
constexpr int kDeepest = 64;
constexpr std::size_t kMostShown = 500;  // bytes of what a value is said to be
constexpr double kEarlierZeroRate = 1;   // of runs whose config.json does not tell it
// What config.json of an earlier version does not tell.
bool IsLater(std::string_view name) {
  return name == "zero_rate" || name == "schedule" || name == "precision" || name == "query_key_norm";
}

// Nlohmann's own conversions cut fractions and wrap signs; a field of another type is an error here.
struct FieldError {
  std::string message;
};

const Json& Member(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) throw FieldError{std::string("'") + name + "' is missing"};
  return *found;
}

[[noreturn]] void WrongType(const char* name, const char* expected) {
  throw FieldError{std::string("'") + name + "' is not " + expected};
}

void ReadField(const Json& object, const char* name, std::string& field) {
  const Json& value = Member(object, name);
  if (!value.is_string()) WrongType(name, "a string");
  field = value.get<std::string>();
}

void ReadField(const Json& object, const char* name, Objective& field) {
  std::string text;
  ReadField(object, name, text);
  field = ParseObjective(text);
}

void ReadField(const Json& object, const char* name, int64_t& field) {
  const Json& value = Member(object, name);
  if (!value.is_number_integer()) WrongType(name, "an integer");
  if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    WrongType(name, "an integer of 64 bits");
  }
  field = value.get<int64_t>();
}

void ReadField(const Json& object, const char* name, uint64_t& field) {
  const Json& value = Member(object, name);
  if (!value.is_number_unsigned()) WrongType(name, "an integer, 0 or more");
  field = value.get<uint64_t>();
}

void ReadField(const Json& object, const char* name, double& field) {
  const Json& value = Member(object, name);
  if (!value.is_number()) WrongType(name, "a number");
  field = value.get<double>();
}

void ReadField(const Json& object, const char* name, bool& field) {
  const Json& value = Member(object, name);
  if (!value.is_boolean()) WrongType(name, "true or false");
  field = value.get<bool>();
}

// Options have no field of another type.
template <class T>
void ReadField(const Json&, const char* name, T&) {
  WrongType(name, "of a known type");
}

void ReadFields(const Json& object, const Fields& fields) {
  for (const Field& field : fields) {
    if (IsLater(field.name) && !object.contains(field.name)) continue;
    std::visit([&](auto* place) { ReadField(object, field.name.c_str(), *place); }, field.value);
  }
}

Json ToJson(const RunConfig& config) {
  TrainOptions options = config.options;
  return {
      {"format", kFormat},
      {"model", SettingsOf(FieldsOf(options.model))},
      {"training", SettingsOf(FieldsOf(options))},
      {"vocabulary", EncodeUtf8(config.vocabulary.characters())},
      {"text", {{"name", config.text.name}, {"characters", config.text.characters}, {"fingerprint", config.text.fingerprint}}},
      {"threads", config.threads}};
}

RunConfig FromJson(const Json& json) {
  if (!json.is_object()) throw FieldError{"the file is not a JSON object"};
  int64_t format = 0, threads = 0;
  ReadField(json, "format", format);
  if (format != kFormat) throw FieldError{"'format' is " + std::to_string(format) + "; this program reads 1"};
  RunConfig config;
  const Json &model = Member(json, "model"), &training = Member(json, "training"), &text = Member(json, "text");
  if (!model.is_object() || !training.is_object() || !text.is_object()) {
    throw FieldError{"'model', 'training' and 'text' are not all objects"};
  }
  ReadFields(model, FieldsOf(config.options.model));
  config.options.zero_rate = kEarlierZeroRate;
  ReadFields(training, FieldsOf(config.options));
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

// Nlohmann's own message quotes the bytes it stumbled over, whatever they are.
Json Parse(const std::string& text) {
  // What nests deeper is no setting, and destroying or printing it could exhaust the stack.
  const auto shallow = [](int depth, Json::parse_event_t, const Json&) {
    return depth <= kDeepest ? true : throw FieldError{"more than " + std::to_string(kDeepest) + " levels are nested"};
  };
  try {
    return Json::parse(text, shallow);
  } catch (const Json::parse_error& error) {
    throw FieldError{"malformed JSON at byte " + std::to_string(error.byte)};
  } catch (const Json::out_of_range&) {
    throw FieldError{"malformed JSON: a number that no double holds"};
  }
}

Metrics ParseMetrics(const std::string& line) {
  const Json json = Parse(line);
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

RunConfig RunFolder::ReadConfig() const { return ParseConfig(ReadFile(config(), kMostSettingsBytes)); }

RunConfig RunFolder::ParseConfig(const std::string& contents) const {
  try {
    return FromJson(Parse(contents));
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

}  // namespace heed::lab
