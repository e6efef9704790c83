// Multi-head attention as a module, with d2l's names and meaning.
#ifndef HEED_NN_MULTI_HEAD_ATTENTION_H_
#define HEED_NN_MULTI_HEAD_ATTENTION_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include "heed/nn/attention.h"
#include "heed/nn/cache.h"
#include "heed/nn/cloneable.h"
#include "heed/nn/positions.h"
#include "heed/nn/query_key_norm.h"

namespace heed::nn {

struct MultiHeadAttentionOptions {
  MultiHeadAttentionOptions(int64_t num_hiddens, int64_t num_heads) : num_hiddens_(num_hiddens), num_heads_(num_heads) {}
  TORCH_ARG(int64_t, num_hiddens);
  TORCH_ARG(int64_t, num_heads);
  TORCH_ARG(double, dropout) = 0.0;    // of the attention weights, in training only
  TORCH_ARG(bool, bias) = false;       // of the four projections
  TORCH_ARG(int64_t, kv_heads) = 0;    // 0: num_heads
  TORCH_ARG(int64_t, head_dim) = 0;    // width of a head; 0: num_hiddens / num_heads, which must be whole
  TORCH_ARG(int64_t, query_size) = 0;  // input widths; 0: num_hiddens
  TORCH_ARG(int64_t, key_size) = 0;
  TORCH_ARG(int64_t, value_size) = 0;
  TORCH_ARG(Causal, causal) = Causal::kNone;
  TORCH_ARG(Window, window);  // keys around a query's own position
  // Absent: 1 with query_key_norm kL2, else the scheme's scale, else 1/sqrt(head width).
  TORCH_ARG(std::optional<double>, scale);
  TORCH_ARG(std::optional<double>, softcap);  // scores become softcap * tanh(score / softcap)
  TORCH_ARG(EmptyRow, empty_row) = EmptyRow::kZero;
  TORCH_ARG(Precision, precision) = Precision::kFloat32;
  TORCH_ARG(QueryKeyNormKind, query_key_norm) = QueryKeyNormKind::kNone;  // of projected queries and keys, before positions
  TORCH_ARG(bool, keep_attention_weights) = false;  // keep weights [batch * num_heads, queries, keys], as d2l does

 public:
  // -1: no bound.
  MultiHeadAttentionOptions& window(int64_t left, int64_t right) { return window(Window{left, right}); }

  // A scheme by name, made for this module's heads. The constructor throws for encodings of the input.
  MultiHeadAttentionOptions& position(PositionOptions value) {
    position_ = std::move(value);
    position_module_ = nullptr;
    return *this;
  }
  // An existing scheme; modules may share one, as T5's layers do. See heed/nn/cloneable.h for copies of such modules.
  MultiHeadAttentionOptions& position(std::shared_ptr<AttentionPosition> value) {
    position_module_ = std::move(value);
    return *this;
  }
  MultiHeadAttentionOptions& position(const HoldsPosition auto& holder) { return position(holder.ptr()); }
  const PositionOptions& position() const { return position_; }
  const std::shared_ptr<AttentionPosition>& position_module() const { return position_module_; }

 private:
  PositionOptions position_;
  std::shared_ptr<AttentionPosition> position_module_;
};

// Positions of steps, [n] or [batch, n], int64 or float64 (timestamps); [batch, n, axes] for a scheme with axes; undefined:
// they count up, as AttentionOptions says. You may give one side alone. With a cache, `keys` are positions of all its tokens;
// those of turned keys must not change between calls, and without `queries` the queries have the last of them.
struct StepPositions {
  torch::Tensor queries, keys;
};

// Masks, biases and programs of a call, besides valid_lens; undefined: none. With a cache the keys are all its tokens.
struct AttentionMasks {
  // bool, broadcastable to [batch, num_heads, n, m]: true where a query may attend
  torch::Tensor mask = {};
  // floating point, broadcastable likewise: added to the scores; -inf hides; differentiable
  torch::Tensor bias = {};
  // int64 [batch], within 0..n: the heads of later queries are 0, so their outputs are W_o's bias, or 0 without one
  torch::Tensor query_lengths = {};
  // Programs and their captured tensors by place (AttentionOptions::score and mask_program).
  std::optional<ScoreProgram> score = {};
  std::vector<torch::Tensor> score_tables = {};
  std::optional<MaskProgram> mask_program = {};
  std::vector<torch::Tensor> mask_tables = {};
};

// W_o(attention(W_q queries, W_k keys, W_v values)), heads of width head_dim side by side. Parameters W_q, W_k, W_v, W_o, each
// a Linear as d2l's PyTorch edition names them (initialised as torch::nn::Linear is); a scheme is the submodule `position`, so
// its parameters are position.relative_bias, position.weight, position.keys and so on; a norm is `query_key_norm`.
class MultiHeadAttentionImpl : public Cloneable<MultiHeadAttentionImpl> {
 public:
  explicit MultiHeadAttentionImpl(MultiHeadAttentionOptions options);
  // d2l 1.0.3
  MultiHeadAttentionImpl(int64_t num_hiddens, int64_t num_heads, double dropout, bool bias = false);
  // d2l 0.17.6
  MultiHeadAttentionImpl(int64_t key_size, int64_t query_size, int64_t value_size, int64_t num_hiddens, int64_t num_heads,
                         double dropout, bool bias = false);
  void reset() override;

  // queries [batch, n, query_size], keys [batch, m, key_size], values [batch, m, value_size] -> [batch, n, num_hiddens].
  // valid_lens: undefined, [batch] or [batch, n]; integers or floats; zero or less means no key, more than m means all.
  // With a cache, the call appends the projected keys and values to it, and the queries attend to all its tokens: valid_lens
  // count from its first token, and with Causal::kBottomRight the last query is the last token. A scheme with turns_once turns
  // each key once, in append. For inference: throws InvalidArgument where keys or values require a gradient (use NoGradGuard).
  // An error leaves the cache unchanged.
  torch::Tensor forward(const torch::Tensor& queries, const torch::Tensor& keys, const torch::Tensor& values,
                        const torch::Tensor& valid_lens = {}, KeyValueCache* cache = nullptr,
                        const StepPositions& positions = {}, const AttentionMasks& masks = {});

  // The two parts of forward with a cache, for keys that are projected once for many calls, as in cross-attention. attend does
  // not change the cache, which needs at least one append.
  void append(const torch::Tensor& keys, const torch::Tensor& values, KeyValueCache& cache);
  torch::Tensor attend(const torch::Tensor& queries, const KeyValueCache& cache, const torch::Tensor& valid_lens = {},
                       const StepPositions& positions = {}, const AttentionMasks& masks = {});

  // The weights of the last forward pass, before dropout; undefined unless keep_attention_weights.
  const torch::Tensor& attention_weights() const { return attention_weights_; }

  MultiHeadAttentionOptions options;
  torch::nn::Linear W_q{nullptr}, W_k{nullptr}, W_v{nullptr}, W_o{nullptr};
  QueryKeyNorm query_key_norm{nullptr};         // null without one
  std::shared_ptr<AttentionPosition> position;  // null without a scheme

  // Called, if set, before each forward pass calls heed::nn::attention: with query [B, Hq, Nq, D], key and value
  // [B, Hkv, Nk, D], and the options. It may itself call attention for statistics, or for the weights of a head at a time. A
  // clone shares it; it is not saved.
  using Observer = std::function<void(const torch::Tensor& query, const torch::Tensor& key, const torch::Tensor& value,
                                      const AttentionOptions& call)>;
  Observer observer;

 protected:
  FORWARD_HAS_DEFAULT_ARGS({3, torch::nn::AnyValue(torch::Tensor())},
                           {4, torch::nn::AnyValue(static_cast<KeyValueCache*>(nullptr))},
                           {5, torch::nn::AnyValue(StepPositions())}, {6, torch::nn::AnyValue(AttentionMasks())})

 private:
  // All three of forward's inputs, projected in one product if they are one tensor.
  std::array<torch::Tensor, 3> Projected(const torch::Tensor& queries, const torch::Tensor& keys, const torch::Tensor& values);
  torch::Tensor ProjectedQueries(const torch::Tensor& queries);  // [batch, heads, n, head_dim]
  torch::Tensor Normed(const torch::Tensor& projected, bool queries);
  std::pair<torch::Tensor, torch::Tensor> ProjectedKeysAndValues(const torch::Tensor& keys, const torch::Tensor& values);
  torch::Tensor Output(const torch::Tensor& query, const torch::Tensor& key, const torch::Tensor& value,
                       const torch::Tensor& lengths, const StepPositions& positions, const AttentionMasks& masks,
                       const std::shared_ptr<AttentionPosition>& scheme);
  void Append(const torch::Tensor& key, const torch::Tensor& value, const torch::Tensor& key_positions,
              KeyValueCache& cache) const;
  torch::Tensor OutputOf(const KeyValueCache& cache, const torch::Tensor& query, const torch::Tensor& lengths,
                         const StepPositions& positions, const AttentionMasks& masks);

  torch::Tensor attention_weights_;
};
TORCH_MODULE(MultiHeadAttention);

}  // namespace heed::nn

#endif  // HEED_NN_MULTI_HEAD_ATTENTION_H_
