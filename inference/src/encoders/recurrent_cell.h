// Recurrent cells on plain memory: torch::nn::RNN (tanh), GRU and LSTM of one layer, batch first.
#ifndef HEED_INFERENCE_SRC_ENCODERS_RECURRENT_CELL_H_
#define HEED_INFERENCE_SRC_ENCODERS_RECURRENT_CELL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "encoders/sequence_encoder.h"
#include "heed/packed_matrix.h"

namespace heed {

// With x_t the input and h_t the state, s the logistic function:
//
//   rnn    h = tanh(W_i x + b_i + W_h h + b_h)
//   gru    r, z = s(..), n = tanh(W_in x + b_in + r (W_hn h + b_hn)), h = (1 - z) n + z h
//   lstm   i, f, o = s(..), g = tanh(..), c = f c + i g, h = o tanh(c)
//
// Parameters weight_ih_l0 [gates * hidden, in], weight_hh_l0 [gates * hidden, hidden], with the gates in the order r, z, n and
// i, f, g, o, and bias_ih_l0, bias_hh_l0; with _reverse behind them those of the way back.
class RecurrentCell {
 public:
  // kind: "rnn", "gru" or "lstm". hidden: of one way.
  RecurrentCell(const std::string& kind, int64_t in, int64_t hidden, bool bias, bool both_ways);
  Parameters parameters();

  // X [rows, steps, in] -> Y [rows, steps, hidden], of both ways side by side [.., 2 * hidden]; the way back begins at a row's
  // last step that counts. Y, in one piece, has zeros in the padding.
  void Forward(View<float, 3> X, View<float, 3> Y, const EncoderCall& call) const;

 private:
  enum class Kind { kRnn, kGru, kLstm };
  struct Way {
    PackedMatrix of_input, of_state;
    std::vector<float> input_bias, state_bias;
  };

  void Run(const Way& way, bool back, View<float, 3> X, View<float, 3> Y, const EncoderCall& call) const;
  // One step of a row: entering and kept, what the input and the state give, [gates * hidden]; h and c change.
  void Step(const float* entering, const float* kept, float* h, float* c) const;

  Kind kind_;
  int64_t in_, hidden_;
  bool bias_;
  std::vector<Way> ways_;
};

}  // namespace heed

#endif  // HEED_INFERENCE_SRC_ENCODERS_RECURRENT_CELL_H_
