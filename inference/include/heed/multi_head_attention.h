// Multi-head attention on plain memory, for inference with trained weights: heed::nn::MultiHeadAttention without a framework.
#ifndef HEED_MULTI_HEAD_ATTENTION_H_
#define HEED_MULTI_HEAD_ATTENTION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "heed/attention.h"
#include "heed/cache.h"
#include "heed/layers.h"
#include "heed/model_workspace.h"
#include "heed/positions.h"
#include "heed/rotary.h"
#include "heed/scheme_formulas.h"
#include "heed/weights.h"

namespace heed {

// Positional schemes inside attention. Their parameters have the names of heed::nn, "position.*".
struct RotaryPosition {
  RotaryOptions options = {};  // rotary_dim 0: all columns of a head
  RotaryLayout layout = RotaryLayout::kHalf;
};
struct AlibiPosition {
  bool symmetric = true;
};
struct RelativeBiasPosition {  // position.relative_bias [num_heads, 2 * max_distance + 1]
  int64_t max_distance = 128;
};
struct T5Position {  // position.weight [buckets, num_heads]
  T5Options options = {};
};
struct ShawPosition {  // position.keys, .values, .queries, each [2 * max_distance + 1, head_dim]
  int64_t max_distance = 128;
  bool values = true, queries = false;
};
struct KerplePosition {  // position.rate, .scale, each [num_heads]
  KerpleKind kind = KerpleKind::kLog;
};
struct SandwichPosition {};
struct FirePosition {};            // position.c, .multiplier, .first_weight, .first_bias, .second_weight, .second_bias
struct TemperaturePosition {};     // position.log_scale [num_heads]
struct SinusoidalBiasPosition {};  // position.cosine, .sine, each [num_heads, 16]
struct TransformerXlPosition {     // position.projection [width, width], .content_bias, .position_bias [num_heads, head_dim]
  int64_t max_distance = 512;
};
struct XPosPosition {};   // causal attention only
struct DebertaPosition {  // position.embeddings [2 * max_distance, width], .key_projection.*, .query_projection.*
  int64_t max_distance = 512;
};
struct CopePosition {  // position.table [max_position, head_dim]
  int64_t max_position = 64;
};
using AttentionPosition =
    std::variant<std::monostate, RotaryPosition, AlibiPosition, RelativeBiasPosition, T5Position, ShawPosition, KerplePosition,
                 SandwichPosition, FirePosition, TemperaturePosition, SinusoidalBiasPosition, TransformerXlPosition,
                 XPosPosition, DebertaPosition, CopePosition>;

// Normalises queries and keys before any rotation. kL2 divides both by their norms and multiplies queries by exp(log_scale), at
// most 100, in each head (query_key_norm.log_scale [num_heads]). kRms divides both by their root mean square and multiplies
// them by a weight in each column (query_key_norm.query_weight, .key_weight [head_dim]). See heed/nn/query_key_norm.h.
enum class QueryKeyNorm { kNone, kL2, kRms };

struct MultiHeadAttentionOptions {
  int64_t num_hiddens = 0, num_heads = 0;
  bool bias = false;                                     // of the four projections
  int64_t kv_heads = 0;                                  // 0: num_heads
  int64_t query_size = 0, key_size = 0, value_size = 0;  // input widths; 0: num_hiddens
  int64_t head_dim = 0;                                  // width of a head; 0: num_hiddens / num_heads, which must be whole
  Causal causal = Causal::kNone;
  Window window = {};                  // keys around a query's own position
  std::optional<double> scale = {};    // 1/sqrt(head width) by default
  std::optional<double> softcap = {};  // scores become softcap * tanh(score / softcap)
  EmptyRow empty_row = EmptyRow::kZero;
  AttentionPosition position = {};
  QueryKeyNorm query_key_norm = QueryKeyNorm::kNone;
};

// The options of a call of MultiHeadAttention.
struct MultiHeadCall {
  Lengths valid_lens = {};                // absent, [batch] or [batch, n]; zero or less means no key, more than m means all
  KeyValueCache<float>* cache = nullptr;  // see Forward
  // Positions of queries and keys alike: [batch, n] finite numbers, without a cache. Absent: 0, 1, ..
  View<const double, 2> positions = {};
};

class AttentionScheme;

// W_o(attention(W_q queries, W_k keys, W_v values)), heads side by side in the width. Parameters W_q, W_k, W_v, W_o, each a
// Linear as d2l's PyTorch edition names them, and those of the scheme. Several threads may use it at once.
class MultiHeadAttention {
 public:
  // Throws InvalidArgument, naming the option.
  explicit MultiHeadAttention(MultiHeadAttentionOptions options);
  MultiHeadAttention(int64_t num_hiddens, int64_t num_heads, bool bias = false);

  const MultiHeadAttentionOptions& options() const { return options_; }
  Parameters parameters();

  ~MultiHeadAttention();
  MultiHeadAttention(MultiHeadAttention&&) noexcept;
  MultiHeadAttention& operator=(MultiHeadAttention&&) noexcept;

  // queries [batch, n, query_size], keys [batch, m, key_size], values [batch, m, value_size] -> out [batch, n, num_hiddens],
  // any strides; out must not overlap the inputs.
  // With a cache, the call appends the projected keys and values to it, and the queries attend to all its tokens: valid_lens
  // count from its first token, and with Causal::kBottomRight the last query is the last token. The cache holds turned keys, so
  // a rotary scaling that depends on the length throws. An error leaves the cache unchanged.
  // Throws InvalidArgument, naming the argument and both shapes, before it writes out.
  void Forward(View<const float, 3> queries, View<const float, 3> keys, View<const float, 3> values, View<float, 3> out,
               const MultiHeadCall& call, ModelWorkspace& workspace, Executor& executor) const;
  void Forward(View<const float, 3> queries, View<const float, 3> keys, View<const float, 3> values, View<float, 3> out,
               const Lengths& valid_lens, KeyValueCache<float>* cache, Executor& executor) const;
  void Forward(View<const float, 3> queries, View<const float, 3> keys, View<const float, 3> values, View<float, 3> out,
               const Lengths& valid_lens = {}, KeyValueCache<float>* cache = nullptr) const;

  // An empty cache with the sizes of this layer.
  KeyValueCache<float> NewCache(int64_t batch, int64_t capacity = 0) const;

 private:
  struct Tokens;  // projected queries or keys, and their positions
  void Normalise(const Tokens& tokens, bool queries) const;
  void Turn(const Tokens& tokens, int64_t length, ModelWorkspace& workspace, Executor& executor) const;
  Attention Call() const;
  void CheckInputs(View<const float, 3> queries, View<const float, 3> keys, View<const float, 3> values, View<float, 3> out,
                   const MultiHeadCall& call) const;

  MultiHeadAttentionOptions options_;
  int64_t head_dim_;
  Linear W_q_, W_k_, W_v_, W_o_;
  std::unique_ptr<AttentionScheme> scheme_;                   // null: none
  std::vector<float> log_scale_, query_weight_, key_weight_;  // of the norm of queries and keys
};

}  // namespace heed

#endif  // HEED_MULTI_HEAD_ATTENTION_H_
