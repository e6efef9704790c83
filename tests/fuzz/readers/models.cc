// Folders of kept models: opened by their classes, which refuse by errors alone, and used through the C interface. An input is
// config.json, a zero byte and model.safetensors.
#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "heed/character_model.h"
#include "heed/counting_model.h"
#include "heed/error.h"
#include "heed/heed.h"
#include "heed/series_model.h"
#include "tests/fuzz/readers/reader.h"

namespace heed::fuzz {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMostNumbers = 4096;           // that are asked of a model at once
constexpr heed_status kNotFinite = HEED_FAILED;  // what a model whose weights are huge may answer

void WriteFolder(std::string_view bytes) {
  const auto [config, weights] = TwoFiles(bytes);
  WriteAt("config.json", config), WriteAt("model.safetensors", weights);
}
std::string Folder() { return At("."); }

// The names of all that the model has, at and beyond their ends.
void ReadNames(const heed_model* model) {
  std::size_t letters = 0;
  const auto read = [&](const char* name) { letters += name == nullptr ? 0 : std::strlen(name); };
  const int64_t columns = std::min(heed_model_columns(model), kMostNumbers);
  for (const int64_t column : {int64_t{-1}, columns - 1, columns, INT64_MAX}) {
    read(heed_model_column(model, column));
    for (const int64_t category : {int64_t{-1}, int64_t{0}, int64_t{1}, INT64_MAX})
      read(heed_model_category(model, column, category));
  }
  for (int64_t i = -1; i <= std::min(heed_model_outputs(model), kMostNumbers); ++i) read(heed_model_class(model, i));
}

void Answered(heed_status status) {
  Require(status == HEED_OK || status == HEED_INVALID_ARGUMENT || status == kNotFinite,
          "a call of a model failed: " + std::string(heed_message()));
}

// Two rows, as long as a network reads at once or a few steps longer.
void Predict(const heed_model* model, const SeriesForm& form) {
  constexpr int64_t kRows = 2;
  const int64_t steps = std::min<int64_t>(form.steps() + 2, 40), columns = form.columns();
  const int64_t answers = heed_model_answers(model, steps), outputs = heed_model_outputs(model);
  Require(answers == form.Answered(steps) && outputs == form.outputs(), "two interfaces tell other sizes");
  if (columns > kMostNumbers || answers * outputs > kMostNumbers) return;
  std::vector<double> features(kRows * steps * columns), times, target(kRows * steps, 2.5), out(kRows * answers * outputs, 7.0);
  for (std::size_t i = 0; i < features.size(); ++i) features[i] = static_cast<double>(i % 7 + 1);
  for (int64_t i = 0; form.has_times && i < kRows * steps; ++i) times.push_back(static_cast<double>(i % steps) * 86400);
  const std::array<int64_t, kRows> lengths{steps, steps - 1};
  std::vector<double> low = out, high = out;
  const bool intervals = !form.Classifies(), past = form.Forecasts();
  Answered(heed_model_predict(model, features.data(), kRows, steps, columns, times.empty() ? nullptr : times.data(),
                              lengths.data(), past ? target.data() : nullptr, out.data(), std::ssize(out),
                              intervals ? low.data() : nullptr, intervals ? high.data() : nullptr));
}

// Sizes that no array has.
void PredictNothing(const heed_model* model, const SeriesForm& form) {
  double number = 0;
  const double* const times = form.has_times ? &number : nullptr;
  const int64_t columns = form.columns();
  for (const auto& [rows, steps] : {std::pair(int64_t{0}, INT64_MAX), {INT64_MAX, INT64_MAX}, {int64_t{-1}, int64_t{1}}}) {
    const heed_status status =
        heed_model_predict(model, &number, rows, steps, columns, times, nullptr, nullptr, &number, 0, nullptr, nullptr);
    Require(status == HEED_INVALID_ARGUMENT || columns < 2, "a model predicts from an array that cannot be");
  }
}

void Continue(const heed_model* model, const std::u32string& characters, int64_t work) {
  if (work > kMostNumbers) return;
  std::string prompt;
  for (const int64_t i : {0, 1, 0}) prompt += heed_model_class(model, i % std::ssize(characters));
  std::vector<double> probabilities(characters.size());
  Answered(heed_model_next(model, prompt.c_str(), probabilities.data(), std::ssize(probabilities)));
  std::array<char, 32> text{};
  Answered(heed_model_continue(model, prompt.c_str(), 5, text.data(), text.size()));
}

// What is open through the C interface, as it must be where a class opens it.
void WithModel(const std::function<void(const heed_model*)>& use) {
  heed_model* model = nullptr;
  const heed_status status = heed_model_open(Folder().c_str(), &model);
  Require(status == HEED_OK, "the C interface refuses a model: " + std::string(heed_message()));
  ReadNames(model);
  use(model);
  heed_model_close(model);
}

void ReadSeries(std::string_view bytes) {
  WriteFolder(bytes);
  SeriesModel::IsIn(Folder());
  const SeriesModel model(Folder());
  WithModel([&](const heed_model* opened) {
    Predict(opened, model.form());
    PredictNothing(opened, model.form());
  });
}

void ReadText(std::string_view bytes) {
  WriteFolder(bytes);
  const CharacterModel model(Folder());
  if (SeriesModel::IsIn(Folder()) || CountingModel::IsIn(Folder())) return;
  const CharacterModelConfig& config = model.config();
  WithModel([&](const heed_model* opened) { Continue(opened, config.characters, config.layers * config.width); });
}

void ReadCounts(std::string_view bytes) {
  WriteFolder(bytes);
  CountingModel::IsIn(Folder());
  const CountingModel model(Folder());
  WithModel([&](const heed_model* opened) { Continue(opened, model.characters(), std::ssize(model.characters())); });
}

std::string Kept(const std::string& name) {
  std::ifstream file(HEED_SOURCE_DIR "/tests/kept/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The input of a folder whose weights are those that a model of this configuration asks for, one message after the other. A
// tensor that it has no place for lets the file seem large enough until the others are known.
std::string Complete(const Json& config, const std::function<void(std::string_view)>& read) {
  static const std::regex lacks(R"(parameter '([^']+)'[^;]*\[([0-9, ]*)\][^;]* has no source)");
  std::map<std::string, std::vector<int64_t>> shapes{{"filler", {1024}}};
  for (;;) {
    const std::string input = config.dump() + '\0' + TensorFile(shapes);
    const std::size_t known = shapes.size();
    try {
      read(input);
      return input;
    } catch (const Error& error) {
      const std::string message = error.what();
      for (std::sregex_iterator at(message.begin(), message.end(), lacks), end; at != end; ++at)
        shapes[(*at)[1]] = Json::parse("[" + (*at)[2].str() + "]").get<std::vector<int64_t>>();
      Require(shapes.size() > known || shapes.erase("filler") == 1, "no seed: " + message);
    }
  }
}

constexpr const char* kEncoders[] = {"convolution",  "dilated",        "rnn",   "gru",           "lstm",   "gru-attention",
                                     "decomposable", "self-attentive", "lstmn", "intra-decoder", "linear", "retention",
                                     "mamba2",       "gated-delta"};
constexpr const char* kPositions[] = {
    "none",         "sinusoidal", "learned", "rotary",      "alibi",           "relative",       "t5",   "shaw",    "kerple",
    "kerple_power", "sandwich",   "fire",    "temperature", "sinusoidal_bias", "transformer_xl", "xpos", "deberta", "cope"};

std::vector<std::string> TextSeeds() {
  std::vector<std::string> seeds{Kept("text/config.json") + '\0' + Kept("text/model.safetensors")};
  Json model = {
      {"encoder", "attention"}, {"position", "none"}, {"objective", "causal"}, {"layers", 1},  {"heads", 2},  {"width", 4},
      {"context", 4},           {"ffn_width", 0},     {"max_distance", 0},     {"bias", true}, {"tied", true}};
  const auto add = [&](const char* encoder, const char* position) {
    model["encoder"] = encoder, model["position"] = position;
    seeds.push_back(Complete({{"format", 1}, {"model", model}, {"vocabulary", "aé"}}, ReadText));
  };
  for (const char* encoder : kEncoders) {
    // Those that read both ways are no language models.
    if (std::string_view(encoder) != "decomposable" && std::string_view(encoder) != "self-attentive") add(encoder, "none");
  }
  for (const char* position : kPositions) add("attention", position);
  return seeds;
}

std::vector<std::string> SeriesSeeds() {
  const std::string weights = Kept("baseline/model.safetensors");
  std::vector<std::string> seeds{Kept("network/config.json") + '\0' + Kept("network/model.safetensors"),
                                 Kept("baseline/config.json") + '\0' + weights};
  Json forecast = Json::parse(Kept("baseline/config.json"));
  const auto add = [&](const Json& method) {
    forecast["method"] = method;
    seeds.push_back(forecast.dump() + '\0' + weights);
  };
  add({{"kind", "simple"}, {"settings", Json::object()}});
  add({{"kind", "season"}, {"settings", {{"season", 2}}}});
  add({{"kind", "smoothing"},
       {"settings", {{"season", 2}, {"logs", true}, {"level", 0.5}, {"trend", 0.1}, {"season_rate", 0.2}, {"damping", 0.9}}}});
  forecast["form"]["time"] = "day", forecast["form"]["has_times"] = forecast["form"]["has_dates"] = true;
  forecast["form"]["periods"] = {"week"};
  add({{"kind", "simple"}, {"settings", Json::object()}});
  add({{"kind", "calendar"},
       {"settings", {{"periods", {"week"}}, {"harmonics", 2}, {"step", 86400.0}, {"line", true}, {"logs", false}}}});
  Json network = Json::parse(Kept("network/config.json"));
  network["form"]["has_times"] = false, network["form"]["time"] = "", network["form"]["longest"] = 4;
  Json& marks = network["form"];
  marks["gaps"] = {"z"}, marks["category_columns"] = {"c", "c"}, marks["category_names"] = {"no", "yes"};
  Json& sizes = network["network"];
  sizes["width"] = 4, sizes["heads"] = 2, sizes["ffn_width"] = 4, sizes["longest"] = 4, sizes["features"] = 5;
  for (const char* encoder : kEncoders) {
    sizes["encoder"] = encoder, sizes["position"] = "none";
    seeds.push_back(Complete(network, ReadSeries));
  }
  sizes["encoder"] = "attention";
  for (const char* position : {"learned", "relative", "t5", "shaw", "transformer_xl"}) {
    sizes["position"] = position;
    seeds.push_back(Complete(network, ReadSeries));
  }
  return seeds;
}

std::vector<std::string> CountSeeds() {
  const Json config = {{"format", 1}, {"kind", "counts"}, {"name", "counts"},
                       {"order", 2},  {"discount", 0.5},  {"vocabulary", "abcé"}};
  const std::string header = R"({"ends":{"dtype":"I64","shape":[2],"data_offsets":[0,16]},)"
                             R"("tokens":{"dtype":"I32","shape":[6],"data_offsets":[16,40]}})";
  std::string data(40, '\0');
  data[0] = 4, data[8] = 6, data[20] = data[28] = 1, data[36] = 3;  // "abab" and "aé"
  return {config.dump() + '\0' + TensorFile(header, data)};
}

}  // namespace

const Reader kSeries{"series", "the folder of a kept model of series, and its answers", ReadSeries, SeriesSeeds};
const Reader kTexts{"texts", "the folder of a network of characters, and how it continues a text", ReadText, TextSeeds};
const Reader kCounts{"counts", "the folder of a counting model of a text, and how it continues one", ReadCounts, CountSeeds};

}  // namespace heed::fuzz
