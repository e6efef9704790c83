// LinearMixer of heed/nn/linear_encoders.h on plain memory: linear attention, retention, Mamba-2, gated DeltaNet.
#ifndef HEED_INFERENCE_SRC_ENCODERS_LINEAR_MIXER_H_
#define HEED_INFERENCE_SRC_ENCODERS_LINEAR_MIXER_H_

#include <vector>

#include "encoders/sequence_encoder.h"
#include "heed/layers.h"
#include "heed/linear_attention.h"
#include "heed/rotary.h"

namespace heed {

// Parameters conv_weight, conv_bias, A_log, dt_bias, D and norm_weight where the kind has them, in_proj.*, out_proj.*.
class LinearMixer {
 public:
  // The kind is options.encoder. Throws InvalidArgument.
  LinearMixer(const EncoderOptions& options, int64_t hidden);
  Parameters parameters();
  // X [rows, steps, width], in one piece -> Y [rows, steps, hidden], rows of any stride. With a state X is one row, whose steps
  // follow those that the state holds and are added to it. Throws InvalidArgument for a state of other sizes.
  void Forward(View<float, 3> X, View<float, 3> Y, const EncoderCall& call, LinearState* state = nullptr) const;
  // That before the first step.
  LinearState NewState() const;

 private:
  struct Steps;
  // Of the states of all heads, and of the convolution's last inputs.
  int64_t StateNumbers() const;
  int64_t InputNumbers() const;
  void Begin(Steps& steps, LinearState& state) const;
  void KeepInputs(const Steps& steps, float* inputs) const;
  void Convolve(const Steps& steps) const;
  void Turn(const Steps& steps, const EncoderCall& call) const;
  // Decay, and beta of the gated delta rule or dt of Mamba-2, [rows, heads, steps] each.
  void Rates(const Steps& steps, float* decay, float* weight) const;
  // Feature map, length and scale of keys and queries.
  void ShapeKeys(const Steps& steps) const;
  void StatesBefore(const Steps& steps, const std::vector<float>& before, float* states) const;
  // Linear attention or the gated delta rule; of one step in place, where initial and final state are the same memory.
  void Mix(const LinearInputs<float>& in, const LinearOutputs<float>& to, Executor& executor) const;
  void NormAndGate(const Steps& steps, View<float, 2> mixed) const;

  bool linear_, retention_, mamba_, delta_, has_bias_;
  int64_t heads_, hidden_, gate_, value_, key_, columns_;  // value_, key_: columns of all heads
  Linear in_, out_;
  RotaryFrequencies turns_;  // of retention
  std::vector<float> conv_weight_, conv_bias_, A_log_, dt_bias_, skip_, norm_;
};

}  // namespace heed

#endif  // HEED_INFERENCE_SRC_ENCODERS_LINEAR_MIXER_H_
