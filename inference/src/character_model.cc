#include "heed/character_model.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "heed/error.h"
#include "heed/safetensors.h"
#include "heed/utf8.h"

namespace heed {
namespace {

AttentionPosition PositionOf(const CharacterModelConfig& config) {
  if (config.position == "rotary") return RotaryPosition{};
  if (config.position == "alibi") return AlibiPosition{};
  if (config.position == "relative") return RelativeBiasPosition{config.max_distance};
  if (config.position == "shaw") return ShawPosition{config.max_distance};
  if (config.position == "t5") {
    T5Options options;
    options.max_distance = config.max_distance;
    options.bidirectional = false;
    return T5Position{options};
  }
  return {};
}

TransformerEncoderBlockOptions BlockOptions(const CharacterModelConfig& config) {
  TransformerEncoderBlockOptions block;
  block.attention.num_hiddens = config.width;
  block.attention.num_heads = config.heads;
  block.attention.bias = config.bias;
  block.attention.causal = Causal::kBottomRight;
  block.attention.position = PositionOf(config);
  block.ffn_num_hiddens = config.ffn_width;
  block.norm = Norm::kPre;
  block.activation = Activation::kGelu;
  return block;
}

// Of embeddings, beside a sinusoidal encoding: Vaswani et al. 2017, section 3.4.
float InputScale(const CharacterModelConfig& config) {
  return config.position == "sinusoidal" ? static_cast<float>(std::sqrt(static_cast<double>(config.width))) : 1.0f;
}

// A character for a message: printable ASCII in quotes, anything else as U+0041.
std::string Shown(char32_t character) {
  if (character > 0x20 && character < 0x7f) return std::string("'") + static_cast<char>(character) + "'";
  char code[16];
  std::snprintf(code, sizeof code, "U+%04X", static_cast<unsigned>(character));
  return code;
}

// A text that grows, and what its model says comes next.
class GrowingText {
 public:
  GrowingText(const CharacterModel& model, std::vector<int32_t> tokens)
      : model_(model), tokens_(std::move(tokens)), context_(model.config().context), caches_(model.NewCaches()) {}

  void Add(int32_t token) { tokens_.push_back(token); }

  std::vector<float> Next(Executor& executor) {
    const auto count = static_cast<int64_t>(tokens_.size());
    int64_t unread = count - read_;
    if (caches_.front().length() + unread > context_) {
      caches_ = model_.NewCaches();
      unread = std::min(count, read_ == 0 ? context_ : std::max<int64_t>(1, context_ * 3 / 4));
    }
    read_ = count;
    return model_.Step(std::span(tokens_).last(static_cast<std::size_t>(unread)), caches_, executor);
  }

 private:
  const CharacterModel& model_;
  std::vector<int32_t> tokens_;
  int64_t context_, read_ = 0;  // tokens in the caches end at token read_
  CharacterModel::Caches caches_;
};

}  // namespace

CharacterModel::CharacterModel(const std::string& folder)
    : config_(CharacterModelConfig::Read(folder + "/config.json")),
      embedding_(static_cast<int64_t>(config_.characters.size()), config_.width),
      final_norm_(config_.width) {
  const std::string path = folder + "/model.safetensors";
  try {
    // Its rows are computed as they are needed: a table for a context that the file merely claims would be no check at all.
    if (config_.position == "sinusoidal") sinusoidal_.emplace(config_.width, /*max_len=*/1, LengthPolicy::kExtend);
    if (config_.position == "learned") learned_.emplace(config_.width, config_.context);
    for (int64_t l = 0; l < config_.layers; ++l) blocks_.emplace_back(BlockOptions(config_));
    if (!config_.tied) head_.emplace(config_.width, static_cast<int64_t>(config_.characters.size()), /*bias=*/false);
    LoadWeights(parameters(), path);
    if (config_.tied) tied_ = PackedMatrix(embedding_.weight());
  } catch (const InvalidArgument& error) {
    throw FileError(folder + ": " + error.what());
  }
}

Parameters CharacterModel::parameters() {
  Parameters own;
  own.Add("embedding", embedding_.parameters());
  if (learned_) own.Add("encoder.learned", learned_->parameters());
  for (std::size_t l = 0; l < blocks_.size(); ++l) own.Add("encoder.block" + std::to_string(l), blocks_[l].parameters());
  own.Add("encoder.final_norm", final_norm_.parameters());
  if (head_) own.Add("head", head_->parameters());
  return own;
}

std::vector<int32_t> CharacterModel::Encode(std::string_view text) const {
  const DecodedUtf8 decoded = DecodeUtf8(text);
  if (decoded.read < text.size()) {
    throw InvalidArgument("text: it is not UTF-8: no valid character begins at byte " + std::to_string(decoded.read));
  }
  std::vector<int32_t> tokens;
  for (const char32_t character : decoded.characters) {
    const auto found = std::ranges::lower_bound(config_.characters, character);
    if (found == config_.characters.end() || *found != character) {
      throw InvalidArgument("text: character " + std::to_string(tokens.size()) + ", " + Shown(character) +
                            ", is not among the " + std::to_string(config_.characters.size()) +
                            " characters that the model knows");
    }
    tokens.push_back(static_cast<int32_t>(found - config_.characters.begin()));
  }
  return tokens;
}

std::string CharacterModel::Decode(std::span<const int32_t> tokens) const {
  std::u32string characters;
  for (const int32_t token : tokens) {
    if (token < 0 || static_cast<std::size_t>(token) >= config_.characters.size()) {
      throw InvalidArgument("tokens: " + std::to_string(token) + " is outside 0.." +
                            std::to_string(config_.characters.size() - 1));
    }
    characters.push_back(config_.characters[token]);
  }
  return EncodeUtf8(characters);
}

CharacterModel::Caches CharacterModel::NewCaches() const {
  Caches caches;
  for (const TransformerEncoderBlock& block : blocks_) caches.push_back(block.attention().NewCache(/*batch=*/1));
  return caches;
}

std::vector<float> CharacterModel::Hidden(std::span<const int32_t> tokens, Caches* caches, Executor& executor) const {
  const auto steps = static_cast<int64_t>(tokens.size());
  if (steps == 0) throw InvalidArgument("tokens: at least one is expected");
  if (caches != nullptr && caches->size() != blocks_.size()) {
    throw InvalidArgument("caches: expected one for each of " + std::to_string(blocks_.size()) + " layers, got " +
                          std::to_string(caches->size()));
  }
  const int64_t offset = caches != nullptr ? caches->front().length() : 0;
  std::vector<float> numbers(static_cast<std::size_t>(steps * config_.width));
  const auto rows = View<float, 2>::Contiguous(numbers.data(), {steps, config_.width});
  const auto X = View<float, 3>::Contiguous(numbers.data(), {1, steps, config_.width});
  embedding_.Forward(View<const int32_t, 1>::Contiguous(tokens.data(), {steps}), InputScale(config_), rows);
  if (sinusoidal_) sinusoidal_->Forward(X, X, offset);
  if (learned_) learned_->Forward(X, X, offset);
  try {
    for (std::size_t l = 0; l < blocks_.size(); ++l) {
      blocks_[l].Forward(X, {}, caches != nullptr ? &(*caches)[l] : nullptr, executor);
    }
  } catch (...) {
    if (caches != nullptr) {
      for (KeyValueCache<float>& cache : *caches) cache.Truncate(std::min(cache.length(), offset));
    }
    throw;
  }
  final_norm_.Forward(rows, rows);
  return numbers;
}

std::vector<float> CharacterModel::LogitsOf(View<const float, 2> hidden, Executor& executor) const {
  const auto symbols = static_cast<int64_t>(config_.characters.size());
  std::vector<float> logits(static_cast<std::size_t>(hidden.extent[0] * symbols));
  const auto rows = View<float, 2>::Contiguous(logits.data(), {hidden.extent[0], symbols});
  head_ ? head_->Forward(hidden, rows, executor) : tied_.Multiply(hidden, {}, rows, executor);
  return logits;
}

std::vector<float> CharacterModel::Step(std::span<const int32_t> tokens, Caches& caches, Executor& executor) const {
  const std::vector<float> hidden = Hidden(tokens, &caches, executor);
  const float* last = hidden.data() + static_cast<int64_t>(hidden.size()) - config_.width;
  return LogitsOf(View<const float, 2>::Contiguous(last, {1, config_.width}), executor);
}

std::vector<float> CharacterModel::Logits(std::span<const int32_t> tokens, Executor& executor) const {
  const std::vector<float> hidden = Hidden(tokens, nullptr, executor);
  return LogitsOf(View<const float, 2>::Contiguous(hidden.data(), {static_cast<int64_t>(tokens.size()), config_.width}),
                  executor);
}

std::string CharacterModel::Continue(std::string_view prompt, int64_t characters, Executor& executor,
                                     const std::function<void(std::string_view)>& on_character) const {
  if (characters < 0) throw InvalidArgument("characters: " + std::to_string(characters) + " is not 0 or more");
  std::vector<int32_t> tokens = Encode(prompt);
  if (tokens.empty()) throw InvalidArgument("prompt: it is empty; give at least one character");
  GrowingText text(*this, std::move(tokens));
  std::string continuation;
  for (int64_t i = 0; i < characters; ++i) {
    const std::vector<float> logits = text.Next(executor);
    if (!std::ranges::all_of(logits, [](float logit) { return std::isfinite(logit); })) {
      throw Error("model: its logits for character " + std::to_string(i) +
                  " of the continuation are not all finite; its weights are damaged, or its training left the finite numbers");
    }
    const auto token = static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    text.Add(token);
    const std::string character = Decode(std::span(&token, 1));
    continuation += character;
    if (on_character) on_character(character);
  }
  return continuation;
}

std::string CharacterModel::Continue(std::string_view prompt, int64_t characters) const {
  return Continue(prompt, characters, ThreadPool::Default());
}

}  // namespace heed
