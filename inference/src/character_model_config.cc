#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include <nlohmann/json.hpp>

#include "heed/character_model.h"
#include "heed/error.h"
#include "heed/input_file.h"
#include "heed/safetensors.h"
#include "heed/utf8.h"

namespace heed {
namespace {

using Json = nlohmann::json;

constexpr int64_t kFormat = 1;  // of config.json
constexpr int64_t kMostBytes = int64_t{64} << 20;
constexpr int kDeepest = 64;
// Far above what a CPU trains, low enough that no product of two of them overflows.
constexpr int64_t kMaxLayers = 1024, kMaxWidth = 1 << 16, kMaxContext = 1 << 20;
constexpr std::array<std::string_view, 8> kPositions = {"none",  "sinusoidal", "learned", "rotary",
                                                        "alibi", "relative",   "t5",      "shaw"};
// Those that `heed train` knows besides.
constexpr std::array<std::string_view, 10> kWithLibTorchAlone = {
    "kerple",          "kerple_power",   "sandwich", "fire",    "temperature",
    "sinusoidal_bias", "transformer_xl", "xpos",     "deberta", "cope"};

[[noreturn]] void Fail(const std::string& path, const std::string& what) { throw FileError(path + ": " + what); }

class ConfigReader {
 public:
  explicit ConfigReader(const std::string& path) : path_(path) {
    const std::string text = ReadFile(path, kMostBytes);
    // The parser would take a NUL byte for the end.
    if (text.find('\0') != std::string::npos) Fail(path, "malformed JSON: it holds a NUL byte");
    const auto shallow = [this](int depth, Json::parse_event_t, const Json&) {
      if (depth > kDeepest) Fail(path_, "more than " + std::to_string(kDeepest) + " levels are nested");
      return true;
    };
    try {
      json_ = Json::parse(text, shallow);
    } catch (const Json::parse_error& error) {
      Fail(path, "malformed JSON at byte " + std::to_string(error.byte));
    } catch (const Json::out_of_range&) {
      Fail(path, "malformed JSON: a number that no double holds");
    }
    if (!json_.is_object()) Fail(path, "the file is not a JSON object");
  }

  const Json& file() const { return json_; }

  const Json& Member(const Json& object, const char* name) const {
    const auto found = object.find(name);
    if (found == object.end()) Fail(path_, std::string("'") + name + "' is missing");
    return *found;
  }
  const Json& Object(const Json& object, const char* name) const {
    const Json& value = Member(object, name);
    if (!value.is_object()) Fail(path_, std::string("'") + name + "' is not an object");
    return value;
  }
  std::string Text(const Json& object, const char* name) const {
    const Json& value = Member(object, name);
    if (!value.is_string()) Fail(path_, std::string("'") + name + "' is not a string");
    return value.get<std::string>();
  }
  bool Flag(const Json& object, const char* name) const {
    const Json& value = Member(object, name);
    if (!value.is_boolean()) Fail(path_, std::string("'") + name + "' is not true or false");
    return value.get<bool>();
  }
  int64_t Integer(const Json& object, const char* name, int64_t low, int64_t high) const {
    const Json& value = Member(object, name);
    const bool whole =
        value.is_number_integer() &&
        !(value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
    if (!whole || value.get<int64_t>() < low || value.get<int64_t>() > high) {
      Fail(path_, std::string("'") + name + "' is not an integer in " + std::to_string(low) + ".." + std::to_string(high));
    }
    return value.get<int64_t>();
  }

 private:
  const std::string& path_;
  Json json_;
};

// As `heed train` resolves it: half the context, and for T5 at least the distance that its buckets need.
int64_t DefaultDistance(const CharacterModelConfig& config) {
  const int64_t least = config.position == "t5" ? T5Options().buckets / 2 + 1 : 1;
  return std::max(least, config.context / 2);
}

void RefuseUnlessCausalAttention(const std::string& path, const std::string& encoder, const std::string& objective) {
  if (encoder != "attention") {
    Fail(path,
         "the encoder " + QuotedName(encoder) + " is not supported without LibTorch; models of the encoder 'attention' are");
  }
  if (objective != "causal") {
    Fail(path,
         "the objective " + QuotedName(objective) + " is not supported without LibTorch; models of the objective 'causal' are");
  }
}

}  // namespace

CharacterModelConfig CharacterModelConfig::Read(const std::string& path) {
  const ConfigReader reader(path);
  reader.Integer(reader.file(), "format", kFormat, kFormat);
  const Json& model = reader.Object(reader.file(), "model");
  RefuseUnlessCausalAttention(path, reader.Text(model, "encoder"), reader.Text(model, "objective"));
  CharacterModelConfig config;
  config.position = reader.Text(model, "position");
  if (std::ranges::find(kWithLibTorchAlone, config.position) != kWithLibTorchAlone.end())
    Fail(path, "the position " + QuotedName(config.position) + " is not supported without LibTorch");
  if (std::ranges::find(kPositions, config.position) == kPositions.end()) {
    Fail(path, "the position " + QuotedName(config.position) + " is unknown");
  }
  // Runs of earlier versions do not tell it.
  if (model.contains("query_key_norm") && reader.Text(model, "query_key_norm") != "none") {
    Fail(path, "the query_key_norm " + QuotedName(reader.Text(model, "query_key_norm")) + " is not supported without LibTorch");
  }
  config.layers = reader.Integer(model, "layers", 1, kMaxLayers);
  config.heads = reader.Integer(model, "heads", 1, kMaxWidth);
  config.width = reader.Integer(model, "width", 1, kMaxWidth);
  config.context = reader.Integer(model, "context", 1, kMaxContext);
  config.ffn_width = reader.Integer(model, "ffn_width", -1, 4 * kMaxWidth);
  if (config.ffn_width < 0) config.ffn_width = 4 * config.width;
  config.max_distance = reader.Integer(model, "max_distance", 0, kMaxContext);
  if (config.max_distance == 0) config.max_distance = DefaultDistance(config);
  config.bias = reader.Flag(model, "bias");
  config.tied = reader.Flag(model, "tied");
  config.characters = DecodeUtf8(reader.Text(reader.file(), "vocabulary")).characters;
  const bool ascending = std::ranges::adjacent_find(config.characters, std::ranges::greater_equal()) == config.characters.end();
  if (config.characters.empty() || !ascending) Fail(path, "'vocabulary' is not sorted and without repetition");
  return config;
}

}  // namespace heed
