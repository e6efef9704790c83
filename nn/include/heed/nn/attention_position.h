// The base class of positional schemes inside attention, those of heed/nn/positions.h and your own.
#ifndef HEED_NN_ATTENTION_POSITION_H_
#define HEED_NN_ATTENTION_POSITION_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include <ATen/core/Tensor.h>

#include "heed/nn/attention.h"
#include "heed/score_program.h"

namespace heed::nn {

// Positions of tokens: that of the first one, or a list, [N] or [B, N], int64 or float64; for a scheme with several axes
// [B, N, axes].
using TokenPositions = std::variant<int64_t, at::Tensor>;

// A scheme that is a function of the score.
struct PositionProgram {
  ScoreProgram program;
  std::vector<at::Tensor> tables;  // captured, by place, as AttentionOptions::score takes them
  int64_t heads = 0;               // query heads of the tables; calls with others throw. 0: any number
};

// A scheme inside attention: AttentionOptions().position(scheme), MultiHeadAttentionOptions().position(scheme). A subclass
// overrides the parts that it needs and is a torch::nn::Module too. Names, parameters and their initial values are those of
// heed.positions in Python, so both sides can load each other's state dicts.
class AttentionPosition {
 public:
  virtual ~AttentionPosition() = default;
  // Options of the call: relative_bias, slopes, content_keys, content_values, content_queries, transformer_xl_positions,
  // transformer_xl_bias, contextual_position, column_decay. Undefined ones are absent.
  virtual AttentionTensors tensors() const { return {}; }
  virtual bool symmetric() const { return true; }  // whether slopes multiply distances
  // Whether `tensors` computes them from the module's parameters and buffers alone, at a cost; a cache then keeps them.
  virtual bool computes_tables() const { return false; }
  // A program for the score, after all terms and before masks and the call's own program.
  virtual std::optional<PositionProgram> program() const { return std::nullopt; }
  // The scale of calls that give none, for heads of this width; absent: 1/sqrt(head_dim).
  virtual std::optional<double> default_scale(int64_t /*head_dim*/) const { return std::nullopt; }

  // Numbers in a position. With more than one, calls may list positions [B, N, axes].
  virtual int64_t axes() const { return 1; }
  // Whether the scheme overrides place, which turns the positions of `steps` tokens into one number a token. Tables, programs
  // and causality then use these numbers. Without positions token n has position n.
  virtual bool places() const { return false; }
  virtual TokenPositions place(const TokenPositions& positions, int64_t /*steps*/) const { return positions; }

  // Whether each token turns by its own position alone, so that a cache may keep turned keys. rotate then calls rotate_query
  // and rotate_key; otherwise these throw.
  virtual bool turns_once() const { return false; }
  virtual bool rotates() const { return turns_once(); }  // whether rotate changes queries or keys
  // Query [B, Hq, Nq, D] and key [B, Hkv, Nk, D], turned by their positions as the call gives them, without place.
  virtual std::pair<at::Tensor, at::Tensor> rotate(const at::Tensor& query, const at::Tensor& key,
                                                   const TokenPositions& query_positions,
                                                   const TokenPositions& key_positions) const;
  virtual at::Tensor rotate_query(const at::Tensor& query, const TokenPositions& positions) const;
  virtual at::Tensor rotate_key(const at::Tensor& key, const TokenPositions& positions) const;

 protected:
  AttentionPosition() = default;
  AttentionPosition(const AttentionPosition&) = default;
  AttentionPosition& operator=(const AttentionPosition&) = default;
};

}  // namespace heed::nn

#endif  // HEED_NN_ATTENTION_POSITION_H_
