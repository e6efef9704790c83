// What positional schemes inside attention have in common. Derive from it to write one of your own; those that there are
// (heed/nn/positions.h) are written no differently.
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

// Where tokens stand: the position of the first one, or that of every one, [N] or [B, N], int64 or float64; of a scheme with
// several axes [B, N, axes].
using TokenPositions = std::variant<int64_t, at::Tensor>;

// A scheme that is a function of the score.
struct PositionProgram {
  ScoreProgram program;
  std::vector<at::Tensor> tables;  // that it captured, by place; as AttentionOptions::score takes them
  int64_t heads = 0;               // of the queries that the tables are for; others are refused. 0: any number
};

// A scheme inside attention: AttentionOptions().position(scheme), MultiHeadAttentionOptions().position(scheme). It overrides
// the parts that it has, and is a torch::nn::Module as well. Names, parameters and their start are those of heed.positions in
// Python, so state dicts fit both sides.
class AttentionPosition {
 public:
  virtual ~AttentionPosition() = default;
  // Options of the call: relative_bias, slopes, content_keys, content_values, content_queries, transformer_xl_positions,
  // transformer_xl_bias, contextual_position, column_decay. Undefined ones are absent.
  virtual AttentionTensors tensors() const { return {}; }
  virtual bool symmetric() const { return true; }  // of slopes
  // Whether `tensors` are computed, of the parameters and buffers of the module alone and at a cost: a cache then keeps them.
  virtual bool computes_tables() const { return false; }
  // What becomes of a score, after all that is added to it and before masks and the program that a call brings itself.
  virtual std::optional<PositionProgram> program() const { return std::nullopt; }
  // The scale of calls that give none, for heads of this width; 1/sqrt(head_dim) where it says nothing.
  virtual std::optional<double> default_scale(int64_t /*head_dim*/) const { return std::nullopt; }

  // How many numbers tell where a token stands. With more than one, calls may list positions [B, N, axes].
  virtual int64_t axes() const { return 1; }
  // Whether place does anything: tables, programs and causality then count by what it returns for the positions of `steps`
  // tokens in a row, of one dimension for each token. Without positions of its own, token n stands at n.
  virtual bool places() const { return false; }
  virtual TokenPositions place(const TokenPositions& positions, int64_t /*steps*/) const { return positions; }

  // Whether a token turns by its own position alone, so that a cache may keep its key turned: rotate is then rotate_query of
  // the queries and rotate_key of the keys, which throw where it is not so.
  virtual bool turns_once() const { return false; }
  virtual bool rotates() const { return turns_once(); }  // whether rotate does anything
  // Query [B, Hq, Nq, D] and key [B, Hkv, Nk, D], turned by their positions, which place has not seen.
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
