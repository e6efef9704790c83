// Attention as a differentiable function of tensors.
#ifndef HEED_NN_ATTENTION_H_
#define HEED_NN_ATTENTION_H_

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/arg.h>

#include "heed/attention.h"

namespace heed::nn {

class AttentionPosition;

// A module holder of a scheme, such as Alibi or Rotary of heed/nn/positions.h.
template <class Holder>
concept HoldsPosition = requires(const Holder& holder) {
  { holder.ptr() } -> std::convertible_to<std::shared_ptr<const AttentionPosition>>;
};

namespace internal {

template <class Member, std::size_t kCount>
constexpr std::array<const char*, kCount> NamesOf(const std::array<Member, kCount>& members) {
  std::array<const char*, kCount> names{};
  std::ranges::transform(members, names.begin(), &Member::name);
  return names;
}

}  // namespace internal

// The tensor options. An undefined tensor is absent.
struct AttentionTensors {
  at::Tensor bias{};                              // broadcastable to [B, Hq, Nq, Nk]; differentiable; -inf hides
  at::Tensor relative_bias{};                     // [Hq or 1, 2M+1]; differentiable
  at::Tensor slopes{};                            // [Hq]; differentiable
  at::Tensor content_keys{}, content_values{};    // [2M+1, D], [2M+1, Dv]; differentiable
  at::Tensor content_queries{};                   // [2M+1, D] or, a table a head, [Hq, 2M+1, D]; differentiable
  at::Tensor transformer_xl_positions{};          // [Hq, 2M+1, D]; differentiable; see heed::TransformerXl
  at::Tensor transformer_xl_bias{};               // [Hq, D], with transformer_xl_positions only; differentiable
  at::Tensor contextual_position{};               // [P, D]; differentiable; see heed::ContextualPosition
  at::Tensor score_reals{};                       // [n], the tables of a score program, end to end; differentiable
  at::Tensor sinks{};                             // [Hq], or [B or 1, Hq or 1, Nq or 1]; differentiable; see heed::Sinks
  at::Tensor mask{};                              // bool, broadcastable to [B, Hq, Nq, Nk]
  at::Tensor query_lengths{}, key_lengths{};      // int64 [B]; key lengths also [B, Nq]
  at::Tensor prefix_lengths{};                    // int64 [B]
  at::Tensor query_positions{}, key_positions{};  // int64 or float64, [N] or [B, N]; of schemes with axes [B, N, axes]
  at::Tensor packed_queries{}, packed_keys{};     // int64 [B + 1], cumulative lengths
  at::Tensor score_wholes{};                      // int64 [n], as score_reals
  at::Tensor mask_reals{}, mask_wholes{};         // [n], int64 [n]: the tables of a mask program
  at::Tensor column_decay{};                      // [D], 0 or more, causal calls only; see heed::ColumnDecay

  struct Member {
    const char* name;
    at::Tensor AttentionTensors::*tensor;
    bool differentiable;
  };
  // All(), the operators' arguments and gradients have this order. Differentiable tensors come first.
  static constexpr std::array kMembers{
      Member{"bias", &AttentionTensors::bias, true},
      Member{"relative_bias", &AttentionTensors::relative_bias, true},
      Member{"slopes", &AttentionTensors::slopes, true},
      Member{"content_keys", &AttentionTensors::content_keys, true},
      Member{"content_values", &AttentionTensors::content_values, true},
      Member{"content_queries", &AttentionTensors::content_queries, true},
      Member{"transformer_xl_positions", &AttentionTensors::transformer_xl_positions, true},
      Member{"transformer_xl_bias", &AttentionTensors::transformer_xl_bias, true},
      Member{"contextual_position", &AttentionTensors::contextual_position, true},
      Member{"score_reals", &AttentionTensors::score_reals, true},
      Member{"sinks", &AttentionTensors::sinks, true},
      Member{"mask", &AttentionTensors::mask, false},
      Member{"query_lengths", &AttentionTensors::query_lengths, false},
      Member{"key_lengths", &AttentionTensors::key_lengths, false},
      Member{"prefix_lengths", &AttentionTensors::prefix_lengths, false},
      Member{"query_positions", &AttentionTensors::query_positions, false},
      Member{"key_positions", &AttentionTensors::key_positions, false},
      Member{"packed_queries", &AttentionTensors::packed_queries, false},
      Member{"packed_keys", &AttentionTensors::packed_keys, false},
      Member{"score_wholes", &AttentionTensors::score_wholes, false},
      Member{"mask_reals", &AttentionTensors::mask_reals, false},
      Member{"mask_wholes", &AttentionTensors::mask_wholes, false},
      Member{"column_decay", &AttentionTensors::column_decay, false},
  };
  static constexpr std::size_t kCount = kMembers.size();
  static constexpr std::size_t kDifferentiable = std::ranges::count(kMembers, true, &Member::differentiable);
  static constexpr std::array kNames = internal::NamesOf(kMembers);
  std::array<at::Tensor*, kCount> All() {
    std::array<at::Tensor*, kCount> all{};
    std::ranges::transform(kMembers, all.begin(), [this](const Member& member) { return &(this->*member.tensor); });
    return all;
  }
};
static_assert(std::ranges::is_partitioned(AttentionTensors::kMembers, &AttentionTensors::Member::differentiable));

// AttentionOptions().causal(true).softcap(30): heed/attention.h explains each option. TORCH_ARG(type, name) makes a setter that
// returns the options, and a getter.
class AttentionOptions {
  TORCH_ARG(std::optional<double>, scale);
  TORCH_ARG(Causal, causal) = Causal::kNone;
  TORCH_ARG(Window, window);  // keys within left and right of a query's own position; -1: no bound
  // Position of the first token; absent: see heed/call_options.h.
  TORCH_ARG(std::optional<int64_t>, query_offset);
  TORCH_ARG(std::optional<int64_t>, key_offset);
  TORCH_ARG(bool, symmetric) = true;  // slopes add -slope * distance, otherwise slope * (key position - query position)
  // A scheme of heed/nn/positions.h. Give tables of biases, slopes and content vectors by a scheme or by the setters below, not
  // by both. A scheme that rotates uses the positions of the other options. The program of score() gets the result of the
  // scheme's program; scale() replaces the scheme's scale.
  TORCH_ARG(std::shared_ptr<const AttentionPosition>, position);
  // For each table of a program its kind (0 real, 1 whole) and four extents, as in the operators.
  TORCH_ARG(std::vector<int64_t>, score_extents);
  TORCH_ARG(std::vector<int64_t>, mask_extents);
  TORCH_ARG(std::optional<double>, softcap);
  TORCH_ARG(double, dropout) = 0.0;
  TORCH_ARG(std::optional<int64_t>, seed);  // absent: drawn from PyTorch's default generator
  TORCH_ARG(int64_t, batch_offset) = 0;
  // Indices of the first head, query and key for dropout, so that a part of a larger call drops the same weights.
  TORCH_ARG(int64_t, first_head) = 0;
  TORCH_ARG(int64_t, first_query) = 0;
  TORCH_ARG(int64_t, first_key) = 0;
  TORCH_ARG(EmptyRow, empty_row) = EmptyRow::kZero;
  // In bfloat16 calls kFused rounds weights and gradients of scores to bfloat16 before products.
  TORCH_ARG(Precision, precision) = Precision::kFloat32;
  // Returns the matrix of weights before dropout [B, Hq, Nq, Nk]: quadratic memory, not differentiable.
  TORCH_ARG(bool, return_weights) = false;
  // Returns entropy, largest weight and mean distance of every row, in O(n) memory.
  TORCH_ARG(bool, return_statistics) = false;
  TORCH_ARG(AttentionTensors, tensors);

 public:
  // true aligns the last query with the last key (bottom-right).
  AttentionOptions& causal(bool value) { return causal(value ? Causal::kBottomRight : Causal::kNone); }
  AttentionOptions& window(int64_t left, int64_t right) { return window(Window{left, right}); }
  AttentionOptions& position(const HoldsPosition auto& holder) { return position(holder.ptr()); }
  // int64 [B]; queries at and beyond their length give 0.
  AttentionOptions& query_lengths(at::Tensor value) { return Set(&AttentionTensors::query_lengths, std::move(value)); }
  // int64 [B] or [B, Nq].
  AttentionOptions& key_lengths(at::Tensor value) { return Set(&AttentionTensors::key_lengths, std::move(value)); }
  // int64 [B]; causality does not hide keys before it.
  AttentionOptions& prefix_lengths(at::Tensor value) { return Set(&AttentionTensors::prefix_lengths, std::move(value)); }
  // [N] or [B, N], int64 or float64. With a scheme of several axes [B, N, axes]; such calls refuse causality, a window,
  // statistics and programs that read positions.
  AttentionOptions& query_positions(at::Tensor value) { return Set(&AttentionTensors::query_positions, std::move(value)); }
  AttentionOptions& key_positions(at::Tensor value) { return Set(&AttentionTensors::key_positions, std::move(value)); }
  // Cumulative lengths int64 [B + 1] of sequences packed in tensors [1, H, T, D].
  AttentionOptions& packed(at::Tensor queries, at::Tensor keys) {
    Set(&AttentionTensors::packed_queries, std::move(queries));
    return Set(&AttentionTensors::packed_keys, std::move(keys));
  }
  AttentionOptions& mask(at::Tensor value) { return Set(&AttentionTensors::mask, std::move(value)); }
  AttentionOptions& bias(at::Tensor value) { return Set(&AttentionTensors::bias, std::move(value)); }
  AttentionOptions& relative_bias(at::Tensor value) { return Set(&AttentionTensors::relative_bias, std::move(value)); }
  // ALiBi.
  AttentionOptions& slopes(at::Tensor value, bool symmetric = true) {
    return Set(&AttentionTensors::slopes, std::move(value)).symmetric(symmetric);
  }
  // A score without a value, one a head, [Hq], or one a row, [B or 1, Hq or 1, Nq or 1]. See heed::Sinks.
  AttentionOptions& sinks(at::Tensor value) { return Set(&AttentionTensors::sinks, std::move(value)); }
  // Vectors by clipped offset, added to keys, values and queries; each may be undefined. See heed::ContentBias.
  AttentionOptions& content(at::Tensor keys, at::Tensor values, at::Tensor queries = {}) {
    Set(&AttentionTensors::content_keys, std::move(keys)).Set(&AttentionTensors::content_values, std::move(values));
    return Set(&AttentionTensors::content_queries, std::move(queries));
  }
  // A program whose result replaces the score, after biases and before masks (heed/score_program.h), and its captured tensors
  // in the order of their places: of at most four dimensions, floating point (differentiable), bool or integers. Throws
  // heed::InvalidArgument for other tensors.
  AttentionOptions& score(const ScoreProgram& program, const std::vector<at::Tensor>& tables = {});
  // A program that decides which keys a query may attend to; the kernels skip tiles that it hides.
  AttentionOptions& mask_program(const MaskProgram& program, const std::vector<at::Tensor>& tables = {});
  // The texts of programs, as in the operators, empty for none; the numbers of their tables are among the tensors. Throw
  // heed::InvalidArgument for a text that is no program.
  AttentionOptions& score_text(const std::string& text);
  AttentionOptions& mask_text(const std::string& text);
  // Returns the weights of chosen heads and rows only, [B, heads, rows, Nk]: int64 indices in any order, which may repeat; an
  // undefined tensor means all.
  AttentionOptions& return_weights_of(at::Tensor heads, at::Tensor rows = {}) {
    weights_of_heads_ = std::move(heads);
    weights_of_rows_ = std::move(rows);
    return return_weights(true);
  }

  const std::optional<ScoreProgram>& score() const { return score_; }
  const std::optional<MaskProgram>& mask_program() const { return mask_program_; }
  const at::Tensor& weights_of_heads() const { return weights_of_heads_; }
  const at::Tensor& weights_of_rows() const { return weights_of_rows_; }

 private:
  AttentionOptions& Set(at::Tensor AttentionTensors::*tensor, at::Tensor value) {
    tensors_.*tensor = std::move(value);
    return *this;
  }

  std::optional<ScoreProgram> score_;
  std::optional<MaskProgram> mask_program_;
  at::Tensor weights_of_heads_, weights_of_rows_;
};

struct AttentionOutput {
  at::Tensor output;   // [B, Hq, Nq, Dv]
  at::Tensor lse;      // [B, Hq, Nq], natural logarithm, differentiable too; float32 for 16-bit inputs
  at::Tensor weights;  // [B, Hq, Nq, Nk] or the chosen ones, before dropout; not differentiable; undefined unless requested
  // [3, B, Hq, Nq]: entropy, largest weight, mean distance; differentiable; undefined unless requested. The derivative of the
  // largest weight is that of the first key that has it.
  at::Tensor statistics;
};

// query [B, Hq, Nq, D], key [B, Hkv, Nk, D], value [B, Hkv, Nk, Dv], float32, float64, bfloat16 or float16, any strides.
// Differentiable in query, key, value, the differentiable options and the parameters of a scheme. Forward mode (dual tensors of
// torch::autograd) passes query, key, value, bias, relative_bias, slopes, sinks and the real tables of a score program. Second
// derivatives, in every order of forward and reverse mode but forward in forward, pass all of these but sinks and the program's
// tables. Both raise c10::NotImplementedError for other tensors, for calls with content vectors, Transformer-XL's tables,
// contextual positions or column decay, and for statistics and weights. Third derivatives raise.
// Throws heed::InvalidArgument, naming the argument.
AttentionOutput attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                          const AttentionOptions& options = {});

// Frees the scratch memory that the calling thread keeps between calls of attention, for all workers; the next call allocates
// it anew. The same as heed::ThreadWorkspace().Release().
void release_workspace();

}  // namespace heed::nn

#endif  // HEED_NN_ATTENTION_H_
