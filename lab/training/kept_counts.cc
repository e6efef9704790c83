#include "lab/training/kept_counts.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <utility>

#include <ATen/ATen.h>
#include <fmt/core.h>

#include "heed/error.h"
#include "heed/nn/safetensors.h"
#include "lab/options/settings.h"
#include "lab/report/file.h"
#include "lab/report/json.h"
#include "lab/report/printable.h"

namespace heed::lab {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kFormatOfCounts = 1;
constexpr std::size_t kMostOfValue = 500;  // bytes of what a value is said to be

// One dimension of this type.
const at::Tensor& RowIn(const std::map<std::string, at::Tensor>& arrays, const char* name, at::ScalarType type) {
  const auto found = arrays.find(name);
  if (found == arrays.end() || found->second.dim() != 1 || found->second.scalar_type() != type || found->second.numel() == 0)
    throw FieldError{fmt::format("'{}' of model.safetensors is not the row of whole numbers that a counting model has", name)};
  return found->second;
}

KeptCounts CountsFromJson(const Json& json, const std::map<std::string, at::Tensor>& arrays) {
  if (!json.is_object()) throw FieldError{"the file is not a JSON object"};
  int64_t format = 0;
  ReadField(json, "format", format);
  if (format != kFormatOfCounts)
    throw FieldError{fmt::format("'format' is {}; this program reads {}", format, kFormatOfCounts)};
  KeptCounts kept;
  ReadField(json, "name", kept.name), ReadField(json, "order", kept.order), ReadField(json, "discount", kept.discount);
  if (kept.order < 1 || kept.order > kMostOrder)
    throw FieldError{fmt::format("'order' is {}, not in 1 to {}", kept.order, kMostOrder)};
  if (!(kept.discount > 0 && kept.discount < 1)) throw FieldError{"'discount' is not between 0 and 1"};
  std::string characters;
  ReadField(json, "vocabulary", characters);
  kept.vocabulary = Vocabulary(DecodeText("vocabulary", characters).characters);
  const at::Tensor &tokens = RowIn(arrays, "tokens", at::kInt), &ends = RowIn(arrays, "ends", at::kLong);
  if (tokens.lt(0).logical_or(tokens.ge(kept.vocabulary.size())).any().item<bool>())
    throw FieldError{"'tokens' of model.safetensors hold what the vocabulary does not"};
  kept.text.tokens.assign(tokens.const_data_ptr<int32_t>(), tokens.const_data_ptr<int32_t>() + tokens.numel());
  kept.text.ends.assign(ends.const_data_ptr<int64_t>(), ends.const_data_ptr<int64_t>() + ends.numel());
  if (!std::ranges::is_sorted(kept.text.ends) || kept.text.ends.front() < 0 || kept.text.ends.back() != kept.text.size())
    throw FieldError{"'ends' of model.safetensors are not those of passages"};
  kept.training = ObjectIn(json, "training"), kept.reached = ObjectIn(json, "reached");
  return kept;
}

}  // namespace

void WriteCounts(const KeptCounts& kept, const std::filesystem::path& folder) {
  Passages counted;
  ForEachCounted(kept.text, [&](int64_t begin, int64_t end) {
    counted.tokens.insert(counted.tokens.end(), kept.text.tokens.begin() + begin, kept.text.tokens.begin() + end);
    counted.ends.push_back(counted.size());
  });
  const Json json = {{"format", kFormatOfCounts}, {"kind", "counts"},
                     {"name", kept.name},         {"order", kept.order},
                     {"discount", kept.discount}, {"vocabulary", EncodeUtf8(kept.vocabulary.characters())},
                     {"training", kept.training}, {"reached", kept.reached}};
  MakeFolderOf(folder / "config.json");
  std::filesystem::remove(folder / "config.json");  // never are there settings beside the counts of another model
  nn::WriteSafetensors((folder / "model.safetensors").string(),
                       {{"tokens", at::tensor(counted.tokens, at::kInt)}, {"ends", at::tensor(counted.ends, at::kLong)}},
                       {{"format", "pt"}});
  WriteFile(folder / "config.json", JsonText(json, 1) + "\n");
}

KeptCounts ReadCounts(const std::filesystem::path& folder) {
  const std::filesystem::path config = folder / "config.json";
  const std::string text = ReadFile(config, kMostSettingsBytes);
  const nn::Safetensors arrays = nn::ReadSafetensors((folder / "model.safetensors").string());
  try {
    return CountsFromJson(ParseSettings(text), arrays.tensors);
  } catch (const FieldError& error) {
    throw FileError(config.string() + ": " + Printable(error.message, kMostOfValue));
  } catch (const Error& error) {
    throw FileError(config.string() + ": " + Printable(error.what(), kMostOfValue));
  }
}

bool HoldsCounts(const std::filesystem::path& folder) {
  try {
    const Json json = ParseSettings(ReadFile(folder / "config.json", kMostSettingsBytes));
    return json.is_object() && json.value("kind", Json()) == "counts";
  } catch (const FieldError&) {
    return false;
  }
}

CountingModel::CountingModel(KeptCounts kept)
    : kept_(std::move(kept)), grams_(kept_.text, kept_.vocabulary.size(), kept_.order) {}

Evaluation CountingModel::Evaluate(const std::vector<int32_t>& tokens) const {
  if (tokens.size() < 2) throw InvalidArgument("text: expected two characters or more, as the first is not predicted");
  const auto start = std::chrono::steady_clock::now();
  const double loss = grams_.Losses(tokens, kept_.discount).back();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const int64_t predictions = std::ssize(tokens) - 1;
  return {kept_.order, predictions, loss, std::exp(loss), static_cast<double>(predictions) / std::max(seconds, 1e-9)};
}

std::u32string CountingModel::Generate(const Text& prompt, const GenerateOptions& options,
                                       const std::function<void(char32_t)>& on_character) const {
  const auto next = [this](const std::vector<int32_t>& tokens) {
    std::vector<float> logits;
    for (const double probability : grams_.Next(tokens, kept_.discount))
      logits.push_back(static_cast<float>(std::log(probability)));
    return logits;
  };
  return Continuation(kept_.vocabulary, prompt, options, next, on_character);
}

}  // namespace heed::lab
