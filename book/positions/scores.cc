#include "book/positions/scores.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <torch/nn/module.h>

#include "book/positions/portrait.h"
#include "heed/error.h"
#include "heed/nn/attention.h"
#include "heed/nn/multi_head_attention.h"
#include "heed/nn/position_choice.h"
#include "heed/nn/positional_encoding.h"
#include "heed/nn/random_fourier.h"
#include "lab/training/language_model.h"

namespace heed::lab {
namespace {

std::vector<double> Numbers(const at::Tensor& tensor) {
  const at::Tensor values = tensor.detach().to(at::kDouble).contiguous();
  const double* first = values.const_data_ptr<double>();
  return {first, first + values.numel()};
}

at::Tensor Zeros(int64_t heads, int64_t head_dim) { return at::zeros({heads, head_dim}, at::kDouble); }

// One batch row a pair.
at::Tensor ScoresOfSome(const std::shared_ptr<const nn::AttentionPosition>& scheme, const QueryAndKey& tokens,
                        const at::Tensor& query_positions, const at::Tensor& key_positions) {
  const int64_t pairs = query_positions.size(0), heads = tokens.query.size(0), head_dim = tokens.query.size(1);
  const auto repeated = [&](const at::Tensor& token) {
    return token.view({1, heads, 1, head_dim}).expand({pairs, -1, -1, -1});
  };
  const at::Tensor key = repeated(tokens.key);
  const auto options = nn::AttentionOptions()
                           .position(scheme)
                           .causal(NeedsCausal(*scheme))
                           .query_positions(query_positions.unsqueeze(1))
                           .key_positions(key_positions.unsqueeze(1));
  return nn::attention(repeated(tokens.query), key, key, options).lse.squeeze(2);
}

bool CountsKeys(const nn::AttentionPosition& scheme) { return scheme.tensors().contextual_position.defined(); }

// By how many of the same key stand behind a key: [most + 1, heads].
at::Tensor ScoresByCount(const std::shared_ptr<const nn::AttentionPosition>& scheme, const QueryAndKey& tokens, int64_t most) {
  const int64_t heads = tokens.query.size(0), head_dim = tokens.query.size(1);
  const at::Tensor query = tokens.query.view({1, heads, 1, head_dim});
  const at::Tensor keys = tokens.key.view({1, heads, 1, head_dim}).expand({-1, -1, most + 1, -1});
  // The value of each key is a column of its own: the output is the weights.
  const at::Tensor values = at::eye(most + 1, at::kDouble).expand({1, heads, -1, -1});
  const auto result = nn::attention(query, keys, values, nn::AttentionOptions().position(scheme));
  return (result.output.log() + result.lse.unsqueeze(3)).view({heads, most + 1}).flip(1).t();
}

// By offset, of a query at steps - 1: [heads, 2 * steps - 1].
at::Tensor ByOffset(const nn::AttentionPosition& scheme, const QueryAndKey& tokens, int64_t steps) {
  const at::Tensor keys = at::arange(2 * steps - 1, at::kLong);
  return ScoresAt(InDouble(scheme), tokens, at::full_like(keys, steps - 1), keys).t();
}

void CheckLayer(const ModelOptions& options, int64_t layer) {
  if (layer >= 0 && layer < options.layers) return;
  throw InvalidArgument("layer: " + std::to_string(layer) + " is outside 0.." + std::to_string(options.layers - 1) +
                        ", those of the model");
}

// Null for schemes on the input and for none.
std::shared_ptr<const nn::AttentionPosition> TrainedScheme(LanguageModel& model, int64_t layer) {
  CheckLayer(model->options(), layer);
  int64_t attentions = 0;
  for (const auto& module : model->modules(/*include_self=*/false)) {
    auto* attention = module->as<nn::MultiHeadAttentionImpl>();
    if (attention != nullptr && attentions++ == layer) return attention->position;
  }
  return nullptr;
}

}  // namespace

SeededGenerator::SeededGenerator(uint64_t seed) : state_(at::detail::getDefaultCPUGenerator().get_state()) {
  at::Generator(at::detail::getDefaultCPUGenerator()).set_current_seed(seed);
}

SeededGenerator::~SeededGenerator() { at::Generator(at::detail::getDefaultCPUGenerator()).set_state(state_); }

SchemeTable MatrixTable(const std::string& scheme, const at::Tensor& matrix) {
  return {scheme, matrix.size(0), matrix.size(1), Numbers(matrix), false};
}

std::shared_ptr<nn::AttentionPosition> StartingScheme(const PositionsOptions& options) {
  const SeededGenerator seeded(options.seed);
  const Portrait& portrait = PortraitOf(options.scheme);
  if (portrait.make != nullptr) return portrait.make(options);
  nn::PositionOptions chosen;
  chosen.scheme = nn::ParsePositionScheme(options.scheme);
  chosen.max_distance = options.max_distance;
  chosen.buckets = options.buckets;
  return nn::MakeAttentionPosition(chosen, HeadsOf(options), HeadWidthOf(options), nn::NeedsCausal(chosen.scheme));
}

std::shared_ptr<nn::AttentionPosition> InDouble(const nn::AttentionPosition& scheme) {
  const SeededGenerator seeded(0);  // what a clone draws before the numbers are copied
  const auto copy = dynamic_cast<const torch::nn::Module&>(scheme).clone();
  copy->to(at::kDouble);
  return std::dynamic_pointer_cast<nn::AttentionPosition>(copy);
}

bool NeedsCausal(const nn::AttentionPosition& scheme) { return scheme.tensors().column_decay.defined(); }

double ScaleOf(const nn::AttentionPosition& scheme, int64_t head_dim) {
  return scheme.default_scale(head_dim).value_or(1 / std::sqrt(static_cast<double>(head_dim)));
}

QueryAndKey RandomQueryAndKey(int64_t heads, int64_t head_dim, uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  const auto draw = [&] { return at::randn({heads, head_dim}, generator, at::kDouble); };
  at::Tensor query = draw();
  return {std::move(query), draw()};
}

at::Tensor ScoresAt(const std::shared_ptr<const nn::AttentionPosition>& scheme, const QueryAndKey& tokens,
                    const at::Tensor& query_positions, const at::Tensor& key_positions) {
  const at::NoGradGuard no_grad;
  if (CountsKeys(*scheme)) {
    const at::Tensor behind = (query_positions - key_positions).clamp_min(0);
    return ScoresByCount(scheme, tokens, behind.max().item<int64_t>()).index_select(0, behind);
  }
  constexpr int64_t kMostNumbers = int64_t{1} << 22;  // of the queries at once
  const int64_t pairs = query_positions.size(0), some = std::max<int64_t>(1, kMostNumbers / tokens.query.numel());
  std::vector<at::Tensor> parts;
  for (int64_t first = 0; first < pairs; first += some) {
    const int64_t count = std::min(some, pairs - first);
    parts.push_back(
        ScoresOfSome(scheme, tokens, query_positions.narrow(0, first, count), key_positions.narrow(0, first, count)));
  }
  return at::cat(parts);
}

SchemeTable LearnedRows(const PositionsOptions& options) {
  const SeededGenerator seeded(options.seed);
  return MatrixTable(options.scheme, nn::LearnedPositions(options.width, 0.0, options.steps)->weight);
}

SchemeTable RandomFourierRows(const PositionsOptions& options) {
  const SeededGenerator seeded(options.seed);
  nn::RandomFourier fourier(options.width, /*axes=*/1, kFourierScale);
  fourier->to(at::kDouble);
  const at::Tensor positions = at::arange(options.steps, at::kDouble) / static_cast<double>(options.steps);
  const at::Tensor nothing = at::zeros({1, options.steps, options.width}, at::kDouble);
  return MatrixTable(options.scheme, fourier->forward(nothing, positions)[0]);
}

SchemeTable TableOfScheme(const nn::AttentionPosition& scheme, const PositionsOptions& options) {
  const nn::AttentionTensors tensors = scheme.tensors();
  return MatrixTable(options.scheme, tensors.relative_bias.defined() ? tensors.relative_bias : tensors.content_keys);
}

SchemeTable BiasByOffset(const nn::AttentionPosition& scheme, const PositionsOptions& options) {
  const at::Tensor zeros = Zeros(HeadsOf(options), HeadWidthOf(options));
  return MatrixTable(options.scheme, ByOffset(scheme, {zeros, zeros}, options.steps));
}

SchemeTable BiasByOffsetAndQuery(const nn::AttentionPosition& scheme, const PositionsOptions& options) {
  SchemeTable table = BiasByOffset(scheme, options);
  const at::Tensor zeros = Zeros(HeadsOf(options), HeadWidthOf(options));
  const auto exact = InDouble(scheme);
  for (const int64_t query : {256, 512, 1024, 2048}) {
    const at::Tensor distances = at::arange(0, query + 1, query / 128, at::kLong);
    const at::Tensor bias = ScoresAt(exact, {zeros, zeros}, at::full_like(distances, query), query - distances);
    table.far_queries.push_back({query, Numbers(distances), Numbers(bias.select(1, 0))});
  }
  return table;
}

SchemeTable TermByOffset(const nn::AttentionPosition& scheme, const PositionsOptions& options) {
  const int64_t head_dim = HeadWidthOf(options);
  const QueryAndKey tokens = RandomQueryAndKey(HeadsOf(options), head_dim, options.seed);
  const at::Tensor product = (tokens.query * tokens.key).sum(1, /*keepdim=*/true) * ScaleOf(scheme, head_dim);
  return MatrixTable(options.scheme, ByOffset(scheme, tokens, options.steps) - product);
}

SchemeTable PairsByDistance(const nn::AttentionPosition& scheme, const PositionsOptions& options) {
  const int64_t head_dim = HeadWidthOf(options);
  // A head a pair of columns: its first one alone is 1.
  const at::Tensor columns = at::eye(head_dim, at::kDouble).narrow(0, 0, head_dim / 2);
  const at::Tensor distances = at::arange(options.steps, at::kLong);
  const at::Tensor scores = ScoresAt(InDouble(scheme), {columns, columns}, distances, at::zeros_like(distances));
  return MatrixTable(options.scheme, scores.t() / ScaleOf(scheme, head_dim));
}

SchemeTable Multipliers(const nn::AttentionPosition& scheme, const PositionsOptions& options) {
  const int64_t heads = HeadsOf(options), head_dim = HeadWidthOf(options);
  const at::Tensor unit = at::full({heads, head_dim}, std::sqrt(1 / (ScaleOf(scheme, head_dim) * head_dim)), at::kDouble);
  const at::Tensor zero = at::zeros({1}, at::kLong);
  return MatrixTable(options.scheme, ScoresAt(InDouble(scheme), {unit, unit}, zero, zero).t());
}

SchemeTable StartingTable(const PositionsOptions& options) {
  const at::NoGradGuard no_grad;
  const Portrait& portrait = PortraitOf(options.scheme);
  if (portrait.rows != nullptr) return portrait.rows(options);
  if (portrait.numbers == nullptr) throw InvalidArgument("scheme: '" + options.scheme + "' has no table");
  return portrait.numbers(*StartingScheme(options), options);
}

std::optional<SchemeTable> TrainedTable(LanguageModel& model, int64_t layer) {
  const at::NoGradGuard no_grad;
  const ModelOptions& trained = model->options();
  const auto scheme = TrainedScheme(model, layer);
  for (const auto& module : model->modules(/*include_self=*/false)) {
    const auto* learned = module->as<nn::LearnedPositionsImpl>();
    if (learned == nullptr) continue;
    SchemeTable table = MatrixTable(trained.position, learned->weight);
    table.trained = true;
    return table;
  }
  if (scheme == nullptr || dynamic_cast<const torch::nn::Module&>(*scheme).parameters().empty()) return std::nullopt;
  const Portrait* portrait = FindPortrait(trained.position);
  if (portrait == nullptr || portrait->numbers == nullptr) return std::nullopt;
  PositionsOptions options;
  options.scheme = trained.position;
  FitToModel(options, trained.width, trained.heads, trained.context);
  SchemeTable table = portrait->numbers(*scheme, options);
  table.trained = true;
  return table;
}

}  // namespace heed::lab
