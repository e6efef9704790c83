#include "heed/character_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "characters.h"
#include "config_reader.h"
#include "encoders/sequence_encoder.h"
#include "heed/error.h"
#include "heed/portable_math.h"
#include "heed/positions.h"
#include "heed/shown_name.h"
#include "kept_network.h"

namespace heed {
namespace {

using Json = ConfigReader::Json;

constexpr int64_t kFormat = 1;  // of config.json
// Far above what a CPU trains, low enough that no product of two of them overflows.
constexpr int64_t kMaxLayers = 1024, kMaxWidth = 1 << 16, kMaxContext = 1 << 20;

// As `heed train` resolves it: half the context, and for T5 at least the distance that its buckets need.
int64_t DefaultDistance(const CharacterModelConfig& config) {
  const int64_t of_a_side = T5Options().buckets / (config.causal ? 1 : 2);
  const int64_t least = config.position == "t5" ? of_a_side / 2 + 1 : 1;
  return std::max(least, config.context / 2);
}

EncoderOptions EncoderOf(const CharacterModelConfig& config) {
  EncoderOptions options;
  options.encoder = config.encoder, options.position = config.position;
  options.causal = config.causal, options.bias = config.bias;
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

// A text that grows, and what its model says comes next.
class GrowingText {
 public:
  GrowingText(const CharacterModel& model, std::vector<int32_t> tokens)
      : model_(model), tokens_(std::move(tokens)), context_(model.config().context), caches_(model.NewCaches()) {
    if (!model.config().causal)
      throw InvalidArgument("model: it was trained on the masked objective and continues no text; Logits reads texts with it");
  }

  void Add(int32_t token) { tokens_.push_back(token); }

  // Valid until the next call.
  std::span<const float> Next(Executor& executor) {
    const auto count = static_cast<int64_t>(tokens_.size());
    if (!model_.CanStep()) {
      logits_ = model_.Logits(Last(std::min(count, context_)), executor);
      return std::span(logits_).last(model_.config().characters.size());
    }
    int64_t unread = count - read_;
    if (caches_.length() + unread > context_) {
      caches_ = model_.NewCaches();
      unread = std::min(count, read_ == 0 ? context_ : std::max<int64_t>(1, context_ * 3 / 4));
    }
    read_ = count;
    logits_.resize(model_.config().characters.size());
    model_.Step(Last(unread), caches_, logits_, workspace_, executor);
    return logits_;
  }

 private:
  std::span<const int32_t> Last(int64_t count) const { return std::span(tokens_).last(static_cast<std::size_t>(count)); }

  const CharacterModel& model_;
  std::vector<int32_t> tokens_;
  int64_t context_, read_ = 0;  // tokens in the caches end at token read_
  CharacterModel::Caches caches_;
  std::vector<float> logits_;
  ModelWorkspace workspace_;
};

// Else the first character would be taken, as the likeliest, whatever it is.
void RequireFiniteLogits(std::span<const float> logits, int64_t character) {
  if (std::ranges::all_of(logits, [](float logit) { return std::isfinite(logit); })) return;
  throw Error("model: its logits for character " + std::to_string(character) +
              " of the continuation are not all finite; its weights are damaged, or its training diverged");
}

}  // namespace

CharacterModelConfig CharacterModelConfig::Read(const std::string& path, bool masked_too) {
  const ConfigReader reader(path);
  reader.Integer(reader.file(), "format", kFormat, kFormat);
  const std::string kind = ConfigReader::Has(reader.file(), "kind") ? reader.Text(reader.file(), "kind") : "";
  if (kind == "counts") reader.Fail("it holds counts of characters, not a network; heed::CountingModel opens it");
  if (kind == "table") reader.Fail("it holds a model of labelled sequences; heed::SeriesModel opens it");
  if (!kind.empty()) reader.Fail("'kind': expected one of table, counts, got " + QuotedName(kind));
  const Json& model = reader.Object(reader.file(), "model");
  const std::string objective = reader.Text(model, "objective");
  if (objective != "causal" && objective != "masked")
    reader.Fail("'objective': expected one of causal, masked, got " + QuotedName(objective));
  if (objective == "masked" && !masked_too)
    reader.Fail("the objective 'masked' is not supported without LibTorch; models of the objective 'causal' are");
  CharacterModelConfig config;
  config.causal = objective == "causal";
  config.encoder = reader.Text(model, "encoder");
  config.position = reader.Text(model, "position");
  // Runs of earlier versions do not tell these two.
  if (ConfigReader::Has(model, "query_key_norm")) config.query_key_norm = reader.Text(model, "query_key_norm");
  if (ConfigReader::Has(model, "kernel")) config.kernel = reader.Integer(model, "kernel", 1, kMaxContext);
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
  config.characters = ReadCharacters(reader);
  return config;
}

CharacterModel::CharacterModel(const std::string& folder, bool masked_too)
    : config_(CharacterModelConfig::Read(folder + "/config.json", masked_too)),
      embedding_(std::ssize(config_.characters) + (config_.causal ? 0 : 1), config_.width) {
  const std::string path = folder + "/model.safetensors";
  try {
    const EncoderOptions options = EncoderOf(config_);
    if (!HoldsWeightsOf(options, static_cast<int64_t>(config_.characters.size()), path))
      throw FileError(folder + "/config.json: the model that 'model' describes has more weights than model.safetensors holds");
    encoder_ = MakeEncoder(options);
    if (!config_.tied) head_.emplace(config_.width, static_cast<int64_t>(config_.characters.size()), /*bias=*/false);
    LoadFiniteWeights(parameters(), path);
    // Behind the weights, which bound the sizes that a configuration can claim.
    keeps_states_ = !encoder_->NewCaches().states.empty();
    View<const float, 2> characters = embedding_.weight();
    characters.extent[0] = std::ssize(config_.characters);
    if (config_.tied) tied_ = PackedMatrix(characters);
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

std::vector<int32_t> CharacterModel::Encode(std::string_view text) const { return EncodeTokens(config_.characters, text); }

std::string CharacterModel::Decode(std::span<const int32_t> tokens) const { return DecodeTokens(config_.characters, tokens); }

bool CharacterModel::CanStep() const { return encoder_->CanStep(); }

CharacterModel::Caches CharacterModel::NewCaches() const { return encoder_->NewCaches(); }

View<const float, 2> CharacterModel::Hidden(std::span<const int32_t> tokens, Caches* caches, ModelWorkspace& workspace,
                                            Executor& executor) const {
  const auto steps = static_cast<int64_t>(tokens.size());
  if (steps == 0) throw InvalidArgument("tokens: at least one is expected");
  if (caches != nullptr && !CanStep())
    throw InvalidArgument("caches: the encoder " + config_.encoder + " cannot go on from a cache; Logits reads a whole text");
  const int64_t states = keeps_states_ ? config_.layers : 0, keys = config_.layers - states;
  if (caches != nullptr && (std::ssize(caches->keys) != keys || std::ssize(caches->states) != states)) {
    throw InvalidArgument("caches: expected those of " + std::to_string(config_.layers) + " layers of " + config_.encoder +
                          ", as NewCaches makes them");
  }
  const int64_t offset = caches != nullptr ? caches->length() : 0;
  const View<float, 2> rows = workspace.TakeRows(steps, config_.width);
  embedding_.Forward(View<const int32_t, 1>::Contiguous(tokens.data(), {steps}), InputScale(config_), rows);
  try {
    encoder_->Forward(View<float, 3>::Contiguous(rows.data, {1, steps, config_.width}),
                      EncoderCall{.workspace = workspace, .executor = executor, .caches = caches});
  } catch (...) {
    if (caches != nullptr) caches->Truncate(offset);
    throw;
  }
  return rows;
}

void CharacterModel::LogitsOf(View<const float, 2> hidden, View<float, 2> logits, Executor& executor) const {
  head_ ? head_->Forward(hidden, logits, executor) : tied_.Multiply(hidden, {}, logits, executor);
}

void CharacterModel::Step(std::span<const int32_t> tokens, Caches& caches, std::span<float> logits, ModelWorkspace& workspace,
                          Executor& executor) const {
  if (logits.size() != config_.characters.size()) {
    throw InvalidArgument("logits: expected room for " + std::to_string(config_.characters.size()) + " characters, got " +
                          std::to_string(logits.size()));
  }
  const ModelWorkspace::Frame frame(workspace);
  const View<const float, 2> hidden = Hidden(tokens, &caches, workspace, executor);
  LogitsOf(View<const float, 2>::Contiguous(&hidden(hidden.extent[0] - 1, 0), {1, config_.width}),
           View<float, 2>::Contiguous(logits.data(), {1, std::ssize(logits)}), executor);
}

std::vector<float> CharacterModel::Step(std::span<const int32_t> tokens, Caches& caches, Executor& executor) const {
  std::vector<float> logits(config_.characters.size());
  ModelWorkspace workspace;
  Step(tokens, caches, logits, workspace, executor);
  return logits;
}

std::vector<float> CharacterModel::Logits(std::span<const int32_t> tokens, Executor& executor) const {
  ModelWorkspace workspace;
  const ModelWorkspace::Frame frame(workspace);
  const View<const float, 2> hidden = Hidden(tokens, nullptr, workspace, executor);
  const auto symbols = static_cast<int64_t>(config_.characters.size());
  std::vector<float> logits(static_cast<std::size_t>(hidden.extent[0] * symbols));
  LogitsOf(hidden, View<float, 2>::Contiguous(logits.data(), {hidden.extent[0], symbols}), executor);
  return logits;
}

std::string CharacterModel::Continue(std::string_view prompt, int64_t characters, Executor& executor,
                                     const std::function<void(std::string_view)>& on_character) const {
  GrowingText text(*this, EncodePrompt(config_.characters, prompt, characters));
  std::string continuation;
  for (int64_t i = 0; i < characters; ++i) {
    const std::span<const float> logits = text.Next(executor);
    RequireFiniteLogits(logits, i);
    const auto token = static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    text.Add(token);
    const std::string character = Decode(std::span(&token, 1));
    continuation += character;
    if (on_character) on_character(character);
  }
  return continuation;
}

std::vector<double> CharacterModel::Next(std::span<const int32_t> tokens, Executor& executor) const {
  if (tokens.empty()) throw InvalidArgument("tokens: at least one is expected");
  GrowingText text(*this, {tokens.begin(), tokens.end()});
  const std::span<const float> logits = text.Next(executor);
  RequireFiniteLogits(logits, 0);
  const double largest = *std::ranges::max_element(logits);
  std::vector<double> probabilities;
  probabilities.reserve(logits.size());
  for (const float logit : logits) probabilities.push_back(portable::Exp(logit - largest));
  const double sum = std::accumulate(probabilities.begin(), probabilities.end(), 0.0);
  for (double& probability : probabilities) probability /= sum;
  return probabilities;
}

std::string CharacterModel::Continue(std::string_view prompt, int64_t characters) const {
  return Continue(prompt, characters, ThreadPool::Default());
}

}  // namespace heed
