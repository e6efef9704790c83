#include "heed/counting_model.h"

#include <algorithm>
#include <cmath>

#include "characters.h"
#include "config_reader.h"
#include "heed/error.h"
#include "heed/portable_math.h"
#include "kept_arrays.h"

namespace heed {
namespace {

constexpr int64_t kFormatOfCounts = 1;

const char kKindOfCounts[] = "counts";

}  // namespace

CountingModel::CountingModel(const std::string& folder) {
  const ConfigReader config(folder + "/config.json");
  config.Integer(config.file(), "format", kFormatOfCounts, kFormatOfCounts);
  if (config.Text(config.file(), "kind") != kKindOfCounts) config.Fail("'kind' is not \"counts\"");
  name_ = config.Text(config.file(), "name");
  order_ = config.Integer(config.file(), "order", 1, kMostOrder);
  discount_ = config.Number(config.file(), "discount");
  if (!(discount_ > 0 && discount_ < 1)) config.Fail("'discount' is not between 0 and 1");
  characters_ = ReadCharacters(config);
  const std::string path = folder + "/model.safetensors";
  const KeptArrays arrays(path);
  const auto require = [&](bool holds, const char* what) {
    if (!holds) throw FileError(path + ": " + what);
  };
  counted_ = arrays.Rows("tokens");
  const int64_t passages = arrays.Rows("ends");
  require(counted_ > 0 && counted_ <= kMostCounted && passages > 0,
          "'tokens' and 'ends': a counting model has 1 to 2^20 tokens");
  const auto tokens = arrays.Read<int32_t>("tokens", {counted_});
  const auto ends = arrays.Read<int64_t>("ends", {passages});
  const auto symbols = static_cast<int64_t>(characters_.size());
  require(std::ranges::all_of(tokens, [&](int32_t token) { return token >= 0 && token < symbols; }),
          "'tokens' hold what the vocabulary does not");
  require(std::ranges::is_sorted(ends) && ends.front() >= 0 && ends.back() == counted_, "'ends' are not those of passages");
  grams_ = NGrams(tokens, ends, symbols, order_);
  if (grams_.order() != order_) config.Fail("'order': the text has too many different runs of so many characters");
}

bool CountingModel::IsIn(const std::string& folder) {
  const ConfigReader config(folder + "/config.json");
  const auto found = config.file().find("kind");
  return found != config.file().end() && *found == kKindOfCounts;
}

std::vector<int32_t> CountingModel::Encode(std::string_view text) const { return EncodeTokens(characters_, text); }

std::string CountingModel::Decode(std::span<const int32_t> tokens) const { return DecodeTokens(characters_, tokens); }

void CountingModel::RequireKnown(std::span<const int32_t> tokens) const {
  const auto symbols = static_cast<int64_t>(characters_.size());
  for (const int32_t token : tokens) {
    if (token < 0 || token >= symbols)
      throw InvalidArgument("tokens: " + std::to_string(token) + " is outside 0.." + std::to_string(symbols - 1));
  }
}

std::vector<double> CountingModel::Next(std::span<const int32_t> tokens) const {
  const std::span<const int32_t> read = tokens.last(std::min(tokens.size(), static_cast<std::size_t>(order_ - 1)));
  RequireKnown(read);
  return grams_.Next(read, discount_);
}

std::vector<float> CountingModel::Logits(std::span<const int32_t> tokens) const {
  std::vector<float> logits;
  logits.reserve(characters_.size());
  for (const double probability : Next(tokens)) logits.push_back(static_cast<float>(portable::Log(probability)));
  return logits;
}

double CountingModel::Loss(std::span<const int32_t> tokens) const {
  if (tokens.size() < 2) throw InvalidArgument("text: expected two characters or more, as the first is not predicted");
  RequireKnown(tokens);
  return grams_.Losses(tokens, discount_).back();
}

std::string CountingModel::Continue(std::string_view prompt, int64_t characters,
                                    const std::function<void(std::string_view)>& on_character) const {
  std::vector<int32_t> tokens = EncodePrompt(characters_, prompt, characters);
  std::string continuation;
  for (int64_t i = 0; i < characters; ++i) {
    const std::vector<float> logits = Logits(tokens);
    tokens.push_back(static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    const std::string character = Decode(std::span(tokens).last(1));
    continuation += character;
    if (on_character) on_character(character);
  }
  return continuation;
}

}  // namespace heed
