#include "heed/character_model.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "encoders/sequence_encoder.h"
#include "heed/error.h"
#include "heed/safetensors.h"
#include "heed/utf8.h"

namespace heed {
namespace {

EncoderOptions EncoderOf(const CharacterModelConfig& config) {
  EncoderOptions options;
  options.encoder = config.encoder, options.position = config.position;
  options.causal = true, options.bias = config.bias;
  options.layers = config.layers, options.heads = config.heads, options.width = config.width;
  options.ffn_width = config.ffn_width, options.kernel = config.kernel;
  options.max_len = config.context, options.max_distance = config.max_distance;
  options.query_key_norm = QueryKeyNormNamed(config.query_key_norm);
  return options;
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
    if (!model_.CanStep()) {
      const std::vector<float> logits = model_.Logits(Last(std::min(count, context_)), executor);
      return {logits.end() - std::ssize(model_.config().characters), logits.end()};
    }
    int64_t unread = count - read_;
    if (caches_.front().length() + unread > context_) {
      caches_ = model_.NewCaches();
      unread = std::min(count, read_ == 0 ? context_ : std::max<int64_t>(1, context_ * 3 / 4));
    }
    read_ = count;
    return model_.Step(Last(unread), caches_, executor);
  }

 private:
  std::span<const int32_t> Last(int64_t count) const { return std::span(tokens_).last(static_cast<std::size_t>(count)); }

  const CharacterModel& model_;
  std::vector<int32_t> tokens_;
  int64_t context_, read_ = 0;  // tokens in the caches end at token read_
  CharacterModel::Caches caches_;
};

}  // namespace

CharacterModel::CharacterModel(const std::string& folder)
    : config_(CharacterModelConfig::Read(folder + "/config.json")),
      embedding_(static_cast<int64_t>(config_.characters.size()), config_.width) {
  const std::string path = folder + "/model.safetensors";
  try {
    encoder_ = MakeEncoder(EncoderOf(config_));
    if (!config_.tied) head_.emplace(config_.width, static_cast<int64_t>(config_.characters.size()), /*bias=*/false);
    LoadWeights(parameters(), path);
    if (config_.tied) tied_ = PackedMatrix(embedding_.weight());
  } catch (const InvalidArgument& error) {
    throw FileError(folder + ": " + error.what());
  }
}

CharacterModel::~CharacterModel() = default;
CharacterModel::CharacterModel(CharacterModel&&) noexcept = default;

Parameters CharacterModel::parameters() {
  Parameters own;
  own.Add("embedding", embedding_.parameters());
  own.Add("encoder", encoder_->parameters());
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

bool CharacterModel::CanStep() const { return encoder_->CanStep(); }

CharacterModel::Caches CharacterModel::NewCaches() const { return encoder_->NewCaches(); }

std::vector<float> CharacterModel::Hidden(std::span<const int32_t> tokens, Caches* caches, Executor& executor) const {
  const auto steps = static_cast<int64_t>(tokens.size());
  if (steps == 0) throw InvalidArgument("tokens: at least one is expected");
  if (caches != nullptr && !CanStep())
    throw InvalidArgument("caches: the encoder " + config_.encoder + " cannot go on from a cache; Logits reads a whole text");
  if (caches != nullptr && std::ssize(*caches) != config_.layers) {
    throw InvalidArgument("caches: expected one for each of " + std::to_string(config_.layers) + " layers, got " +
                          std::to_string(caches->size()));
  }
  const int64_t offset = caches != nullptr ? caches->front().length() : 0;
  std::vector<float> numbers(static_cast<std::size_t>(steps * config_.width));
  const auto rows = View<float, 2>::Contiguous(numbers.data(), {steps, config_.width});
  embedding_.Forward(View<const int32_t, 1>::Contiguous(tokens.data(), {steps}), InputScale(config_), rows);
  ModelWorkspace workspace;
  try {
    encoder_->Forward(View<float, 3>::Contiguous(numbers.data(), {1, steps, config_.width}),
                      EncoderCall{.workspace = workspace, .executor = executor, .caches = caches});
  } catch (...) {
    if (caches != nullptr) {
      for (KeyValueCache<float>& cache : *caches) cache.Truncate(std::min(cache.length(), offset));
    }
    throw;
  }
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
