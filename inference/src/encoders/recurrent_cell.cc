#include "encoders/recurrent_cell.h"

#include <algorithm>
#include <cmath>

#include "heed/error.h"
#include "heed/portable_math.h"
#include "parameter.h"

namespace heed {

RecurrentCell::RecurrentCell(const std::string& kind, int64_t in, int64_t hidden, bool bias, bool both_ways)
    : kind_(kind == "lstm"  ? Kind::kLstm
            : kind == "gru" ? Kind::kGru
                            : Kind::kRnn),
      in_(in),
      hidden_(hidden),
      bias_(bias),
      ways_(both_ways ? 2 : 1) {}

Parameters RecurrentCell::parameters() {
  const int64_t rows = hidden_ * (kind_ == Kind::kLstm ? 4 : kind_ == Kind::kGru ? 3 : 1);
  Parameters own;
  for (Way& way : ways_) {
    const std::string end = &way == ways_.data() ? "" : "_reverse";
    own.list.push_back(PackedIn(way.of_input, "weight_ih_l0" + end, rows, in_));
    own.list.push_back(PackedIn(way.of_state, "weight_hh_l0" + end, rows, hidden_));
    if (!bias_) continue;
    own.list.push_back(KeptIn(way.input_bias, "bias_ih_l0" + end, {rows}));
    own.list.push_back(KeptIn(way.state_bias, "bias_hh_l0" + end, {rows}));
  }
  return own;
}

void RecurrentCell::Forward(View<float, 3> X, View<float, 3> Y, const EncoderCall& call) const {
  for (std::size_t w = 0; w < ways_.size(); ++w) {
    View<float, 3> own = Y;
    own.data += static_cast<int64_t>(w) * hidden_;
    own.extent[2] = hidden_;
    Run(ways_[w], w == 1, X, own, call);
  }
  Blank(Y, call.lengths);
}

void RecurrentCell::Run(const Way& way, bool back, View<float, 3> X, View<float, 3> Y, const EncoderCall& call) const {
  const ModelWorkspace::Frame frame(call.workspace);
  const int64_t rows = X.extent[0], steps = X.extent[1], gates = way.of_input.out();
  if (gates == 0) throw InvalidArgument("RecurrentCell: its weights were not loaded");
  const View<float, 2> entering = call.workspace.TakeRows(rows * steps, gates), kept = call.workspace.TakeRows(rows, gates),
                       h = call.workspace.TakeRows(rows, hidden_), c = call.workspace.TakeRows(rows, hidden_);
  std::fill_n(h.data, h.size(), 0.0f);
  std::fill_n(c.data, c.size(), 0.0f);
  way.of_input.Multiply(AllRows(X), BiasOf(way.input_bias), entering, call.executor);
  for (int64_t turn = 0; turn < steps; ++turn) {
    way.of_state.Multiply(h, BiasOf(way.state_bias), kept, call.executor);
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t length = call.lengths == nullptr ? steps : call.lengths[row], step = back ? length - 1 - turn : turn;
      if (turn >= length) continue;
      Step(&entering(row * steps + step, 0), &kept(row, 0), &h(row, 0), &c(row, 0));
      std::copy_n(&h(row, 0), hidden_, &Y(row, step, 0));
    }
  }
}

void RecurrentCell::Step(const float* entering, const float* kept, float* h, float* c) const {
  const auto sum = [&](int64_t gate, int64_t i) { return entering[gate * hidden_ + i] + kept[gate * hidden_ + i]; };
  for (int64_t i = 0; i < hidden_; ++i) {
    if (kind_ == Kind::kLstm) {
      c[i] = portable::Logistic(sum(1, i)) * c[i] + portable::Logistic(sum(0, i)) * portable::Tanh(sum(2, i));
      h[i] = portable::Logistic(sum(3, i)) * portable::Tanh(c[i]);
    } else if (kind_ == Kind::kGru) {
      const float z = portable::Logistic(sum(1, i));
      const float n = portable::Tanh(entering[2 * hidden_ + i] + portable::Logistic(sum(0, i)) * kept[2 * hidden_ + i]);
      h[i] = (h[i] - n) * z + n;
    } else {
      h[i] = portable::Tanh(sum(0, i));
    }
  }
}

}  // namespace heed
