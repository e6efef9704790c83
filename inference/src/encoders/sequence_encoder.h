// The encoders of heed::nn on plain memory, with the names of their parameters: [rows, steps, width] -> the same.
#ifndef HEED_INFERENCE_SRC_ENCODERS_SEQUENCE_ENCODER_H_
#define HEED_INFERENCE_SRC_ENCODERS_SEQUENCE_ENCODER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "heed/executor.h"
#include "heed/layer_caches.h"
#include "heed/length_policy.h"
#include "heed/model_workspace.h"
#include "heed/multi_head_attention.h"
#include "heed/view.h"
#include "heed/weights.h"

namespace heed {

// As heed::nn::EncoderOptions, pre-norm with exact gelu and LayerNorm's epsilon of 1e-5, as the laboratory trains.
struct EncoderOptions {
  std::string encoder = "attention";  // a name that MakeEncoder knows
  std::string position = "none";      // a name that PositionNamed knows; of the attention encoder alone
  bool causal = false, bias = true;
  int64_t layers = 1, heads = 4, width = 32, ffn_width = 0;
  int64_t kernel = 3;
  int64_t max_len = 64;       // rows of a learned table
  int64_t max_distance = 64;  // where offsets are clipped; see PositionNamed
  QueryKeyNorm query_key_norm = QueryKeyNorm::kNone;
};

struct EncoderCall {
  ModelWorkspace& workspace;
  Executor& executor;
  const int64_t* lengths = nullptr;  // [rows], 1 to steps each; null: all steps count
  View<const double, 2> times = {};  // [rows, steps] in one piece: where steps stand for schemes that take times
  LayerCaches* caches = nullptr;     // of an encoder that can step: X follows what they hold, and is added to them
};

class SequenceEncoder {
 public:
  SequenceEncoder() = default;
  SequenceEncoder(const SequenceEncoder&) = delete;
  SequenceEncoder& operator=(const SequenceEncoder&) = delete;
  virtual ~SequenceEncoder() = default;

  virtual Parameters parameters() = 0;
  // X, in one piece, is replaced by the outputs. Steps at and beyond a row's length may hold anything, do not influence the
  // others, and become 0. Throws InvalidArgument.
  virtual void Forward(View<float, 3> X, const EncoderCall& call) const = 0;
  // Whether it goes on from caches, and empty ones for one row; none where it does not.
  virtual bool CanStep() const { return false; }
  virtual LayerCaches NewCaches() const { return {}; }
};

// "attention", "convolution", "dilated", "rnn", "gru", "lstm", "gru-attention", "decomposable", "self-attentive", "lstmn",
// "intra-decoder", "linear", "retention", "mamba2", "gated-delta". Throws InvalidArgument that lists the names, or names the
// option.
std::unique_ptr<SequenceEncoder> MakeEncoder(const EncoderOptions& options);

// The scheme of a kept model by its name; monostate for "none" and for those that are added to the input. max_distance: where
// offsets are clipped, of cope the number of positions. causal: T5's buckets serve the keys up to a query alone. Throws
// InvalidArgument that lists the names.
AttentionPosition PositionNamed(const std::string& name, int64_t max_distance, bool causal);
// "none", "l2", "rms". Throws InvalidArgument that lists the names.
QueryKeyNorm QueryKeyNormNamed(const std::string& name);

// Those of single families, by the names in the table of sequence_encoder.cc.
std::unique_ptr<SequenceEncoder> MakeAttentionEncoder(const EncoderOptions& options);
std::unique_ptr<SequenceEncoder> MakeConvolutionEncoder(const EncoderOptions& options);
std::unique_ptr<SequenceEncoder> MakeRecurrentEncoder(const EncoderOptions& options);
std::unique_ptr<SequenceEncoder> MakeOneWayEncoder(const EncoderOptions& options);

// The rows of all steps of X, one below the other.
View<float, 2> AllRows(View<float, 3> X);
// Zeros in the padding.
void Blank(View<float, 3> X, const int64_t* lengths);
// Of attention over the steps of X that count; absent where all do.
Lengths LengthsOf(View<float, 3> X, const EncoderCall& call);

}  // namespace heed

#endif  // HEED_INFERENCE_SRC_ENCODERS_SEQUENCE_ENCODER_H_
