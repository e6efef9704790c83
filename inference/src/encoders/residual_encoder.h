// What all encoders but attention share: norms and feed-forward sublayers around a mixing sublayer of their own.
#ifndef HEED_INFERENCE_SRC_ENCODERS_RESIDUAL_ENCODER_H_
#define HEED_INFERENCE_SRC_ENCODERS_RESIDUAL_ENCODER_H_

#include <memory>
#include <string>
#include <vector>

#include "encoders/sequence_encoder.h"
#include "heed/layers.h"

namespace heed {

// Parameters norm0, ffn_norm0, ffn0, norm1, .., final_norm.
class ResidualEncoder : public SequenceEncoder {
 public:
  Parameters parameters() final;
  void Forward(View<float, 3> X, const EncoderCall& call) const final;

 protected:
  explicit ResidualEncoder(const EncoderOptions& options);
  const EncoderOptions& options() const { return options_; }
  // What a layer that reads in turns has of the width: all where it is causal, else half, as another half reads from the end.
  // Throws InvalidArgument for an odd width.
  int64_t WidthOfAWay() const;

  // Adds the parameters of a layer's own sublayer.
  virtual void AddMixParameters(int64_t layer, Parameters& own) = 0;
  // X [rows, steps, width], with zeros in the padding -> Y of the same shape; what it holds in the padding does not matter.
  virtual void Mix(int64_t layer, View<float, 3> X, View<float, 3> Y, const EncoderCall& call) const = 0;

 private:
  EncoderOptions options_;
  std::vector<LayerNorm> norms_, ffn_norms_;
  std::vector<PositionWiseFFN> ffns_;
  LayerNorm final_norm_;
};

}  // namespace heed

#endif  // HEED_INFERENCE_SRC_ENCODERS_RESIDUAL_ENCODER_H_
