// Positional encodings: modules that act inside attention, and the choice of any scheme by its name.
#ifndef HEED_NN_POSITIONS_H_
#define HEED_NN_POSITIONS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

#include "heed/nn/attention.h"
#include "heed/nn/positional_encoding.h"
#include "heed/nn/rotary.h"
#include "heed/positions.h"
#include "heed/rotary.h"

namespace heed::nn {

class KeptTables;

// Where tokens stand: the position of the first one, or that of every one, [N] or [B, N], int64 or float64.
using TokenPositions = std::variant<int64_t, at::Tensor>;

// A scheme inside attention: AttentionOptions().position(scheme), MultiHeadAttentionOptions().position(scheme). It overrides
// the parts that it has, and is a torch::nn::Module as well. Names, parameters and their start are those of heed.positions in
// Python, so state dicts fit both sides.
class AttentionPosition {
 public:
  virtual ~AttentionPosition() = default;
  // Differentiable options of the call: relative_bias, slopes, content_keys, content_values, content_queries,
  // transformer_xl_positions, transformer_xl_bias. Undefined ones are absent.
  virtual AttentionTensors tensors() const { return {}; }
  virtual bool symmetric() const { return true; }  // of slopes
  virtual bool rotates() const { return false; }   // whether rotate does anything
  // Query [B, Hq, Nq, D] and key [B, Hkv, Nk, D], turned by their positions.
  virtual std::pair<at::Tensor, at::Tensor> rotate(const at::Tensor& query, const at::Tensor& key,
                                                   const TokenPositions& /*query_positions*/,
                                                   const TokenPositions& /*key_positions*/) const {
    return {query, key};
  }
  // Whether a token turns by its own position alone, so that a cache may keep its key turned: rotate is then rotate_query of
  // the queries and rotate_key of the keys, which throw where it is not so.
  virtual bool turns_once() const { return false; }
  virtual at::Tensor rotate_query(const at::Tensor& query, const TokenPositions& positions) const;
  virtual at::Tensor rotate_key(const at::Tensor& key, const TokenPositions& positions) const;

 protected:
  AttentionPosition() = default;
  AttentionPosition(const AttentionPosition&) = default;
  AttentionPosition& operator=(const AttentionPosition&) = default;
};

// A fixed slope m per head: the bias is -m * |key position - query position|, or, where not symmetric, m * (key position -
// query position), which is the same under a causal mask. Press et al. 2022, "Train Short, Test Long", section 3.
class AlibiImpl : public torch::nn::Cloneable<AlibiImpl>, public AttentionPosition {
 public:
  explicit AlibiImpl(int64_t heads, bool symmetric = true, bool trainable = false);
  void reset() override;
  AttentionTensors tensors() const override;
  bool symmetric() const override { return symmetric_; }
  // Slopes stay float32 where a module goes to 16 bits, which would round them.
  void to(torch::Device device, torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Dtype dtype, bool non_blocking = false) override;
  using torch::nn::Module::to;
  torch::Tensor slopes;  // [heads] float32; a parameter where trainable, else out of the state dict

 private:
  int64_t heads_;
  bool symmetric_, trainable_;
};
TORCH_MODULE(Alibi);

// One trainable number per head and offset, clipped to max_distance; zeros at first.
class RelativeBiasImpl : public torch::nn::Cloneable<RelativeBiasImpl>, public AttentionPosition {
 public:
  RelativeBiasImpl(int64_t heads, int64_t max_distance);
  void reset() override;
  AttentionTensors tensors() const override;
  torch::Tensor relative_bias;  // [heads, 2 * max_distance + 1]

 private:
  int64_t heads_, max_distance_;
};
TORCH_MODULE(RelativeBias);

// One trainable number per bucket of offsets and head, zeros at first; `weight` has the layout of T5's
// relative_attention_bias.weight. T5 does not scale its scores, so its weights want scale(1.0); attention and
// MultiHeadAttention keep 1/sqrt(D) unless told otherwise. Raffel et al. 2020, "Exploring the Limits of Transfer Learning",
// section 2.1.
class T5BiasImpl : public torch::nn::Cloneable<T5BiasImpl>, public AttentionPosition {
 public:
  explicit T5BiasImpl(int64_t heads, T5Options options = {});
  void reset() override;
  at::Tensor table() const;  // the bias by head and offset, [heads, 2 * max_distance + 1]
  AttentionTensors tensors() const override;
  torch::Tensor weight;  // [buckets, heads]

 private:
  int64_t heads_;
  T5Options options_;
  at::Tensor bucket_of_offset_;  // int64 [2 * max_distance + 1]
};
TORCH_MODULE(T5Bias);

// Trainable vectors by clipped offset, shared by all heads, N(0, 1/sqrt(head_dim)) at first: row max_distance + offset is added
// to the key that a query sees at that offset, and, where asked for, to the value and to the query that a key meets. Shaw et
// al. 2018, "Self-Attention with Relative Position Representations", section 3.2; queries: He et al. 2021, "DeBERTa".
class ShawImpl : public torch::nn::Cloneable<ShawImpl>, public AttentionPosition {
 public:
  // value_dim 0: head_dim.
  ShawImpl(int64_t head_dim, int64_t max_distance, bool with_values = true, bool with_queries = false, int64_t value_dim = 0);
  void reset() override;
  AttentionTensors tensors() const override;
  torch::Tensor keys;     // [2 * max_distance + 1, head_dim]
  torch::Tensor values;   // [2 * max_distance + 1, value_dim]; undefined without values
  torch::Tensor queries;  // [2 * max_distance + 1, head_dim]; undefined without queries

 private:
  int64_t head_dim_, max_distance_, value_dim_;
  bool with_values_, with_queries_;
};
TORCH_MODULE(Shaw);

// Turns queries and keys so that their products depend on distance alone; nothing is trained. See heed/rotary.h for the
// formulas and the scalings. Su et al. 2021, "RoFormer", section 3.2.
class RotaryImpl : public torch::nn::Cloneable<RotaryImpl>, public AttentionPosition {
 public:
  // options.rotary_dim 0: all columns of a head.
  explicit RotaryImpl(int64_t head_dim, RotaryOptions options = {}, RotaryLayout layout = RotaryLayout::kHalf);
  void reset() override {}
  bool rotates() const override { return true; }
  // Where the frequencies depend on the length of the text, it is the largest of all positions + 1. Keys that were turned for
  // a shorter text then do not fit a longer one: keep them unturned.
  std::pair<at::Tensor, at::Tensor> rotate(const at::Tensor& query, const at::Tensor& key,
                                           const TokenPositions& query_positions,
                                           const TokenPositions& key_positions) const override;
  bool turns_once() const override { return fixed_.has_value(); }
  at::Tensor rotate_query(const at::Tensor& query, const TokenPositions& positions) const override;
  at::Tensor rotate_key(const at::Tensor& key, const TokenPositions& positions) const override;

 private:
  RotaryTables Tables(const at::Tensor& x, const TokenPositions& positions, std::optional<int64_t> last) const;
  at::Tensor Turned(const at::Tensor& x, const RotaryTables& tables) const;

  int64_t head_dim_;
  RotaryOptions options_;
  RotaryLayout layout_;
  std::optional<RotaryFrequencies> fixed_;  // unless they depend on the length
  std::shared_ptr<KeptTables> kept_;        // copies share it: their frequencies are the same
};
TORCH_MODULE(Rotary);

enum class PositionScheme {
  kNone,
  kSinusoidal,    // PositionalEncoding, added to the input
  kLearned,       // LearnedPositions, added to the input
  kRotary,        // Rotary
  kAlibi,         // Alibi
  kRelativeBias,  // RelativeBias
  kT5,            // T5Bias
  kShaw,          // Shaw
};

// "none", "sinusoidal", "learned", "rotary", "alibi", "relative", "t5", "shaw".
std::vector<std::string> PositionSchemeNames();
// Throws InvalidArgument that lists the names.
PositionScheme ParsePositionScheme(const std::string& name);
std::string ToString(PositionScheme scheme);
bool AddsToInput(PositionScheme scheme);

// A scheme by name, with what it takes besides the sizes of the module that it serves.
struct PositionOptions {
  PositionScheme scheme = PositionScheme::kNone;
  int64_t max_len = 1000;      // sinusoidal, learned: rows of the table
  int64_t max_distance = 128;  // relative, shaw: where offsets are clipped; t5: where the last bucket holds all farther ones
  LengthPolicy length_policy = LengthPolicy::kError;  // sinusoidal, learned
  int64_t buckets = 32;                               // t5
  RotaryOptions rotary = {};                          // rotary
  RotaryLayout rotary_layout = RotaryLayout::kHalf;
};

// A new scheme for attention with `heads` query heads of width head_dim; null for kNone. causal: T5's buckets serve the keys up
// to a query alone. Throws InvalidArgument for schemes that are added to the input.
std::shared_ptr<AttentionPosition> MakeAttentionPosition(const PositionOptions& options, int64_t heads, int64_t head_dim,
                                                         bool causal);

}  // namespace heed::nn

#endif  // HEED_NN_POSITIONS_H_
