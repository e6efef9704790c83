#include "heed/nn/attention_models.h"

#include <cmath>
#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/init.h>

#include "heed/nn/linear_encoders.h"
#include "refuse.h"
#include "residual_layers.h"

namespace heed::nn {
namespace {

void CheckSizes(const char* name, int64_t input_size, int64_t hidden_size) {
  if (input_size < 1 || hidden_size < 1) {
    Refuse(name, ": expected sizes of at least 1, got ", input_size, " and ", hidden_size);
  }
}

// The steps of each row that count, the last of them first; the padding stays where it is.
at::Tensor FromTheEnd(const at::Tensor& X, const at::Tensor& lengths) {
  if (!lengths.defined()) return X.flip(1);
  const at::Tensor place = at::arange(X.size(1), lengths.options()), ends = lengths.unsqueeze(1);
  const at::Tensor mirrored = at::where(place.lt(ends), ends - 1 - place, place);
  return X.gather(1, mirrored.unsqueeze(2).expand_as(X));
}

template <class Reader>
Reader MakeReader(const EncoderOptions& options, int64_t hidden) {
  if constexpr (std::is_same_v<Reader, LinearMixer>) {
    if (options.heads() > 0 && hidden % options.heads() != 0)
      Refuse("heads: ", options.heads(), " do not divide the ", hidden, " columns that read one way, of a width of ",
             options.width());
    return Reader(options.mixer(), options.width(), hidden, options.heads(), options.bias());
  } else {
    return Reader(options.width(), hidden, options.bias());
  }
}

// What a step reads off the tape of an LSTMN. The tape is a list of [batch, 3 * hidden], of each earlier step W_h h, h and c
// side by side; `kept` [batch, steps, 3 * hidden] holds the same numbers. With question [batch, hidden] and score [hidden] the
// result is softmax(score . tanh(W_h h + question)) times h and c, [batch, 2 * hidden]. Nothing of the size of the tape is kept
// for the backward pass, which computes the weights anew: n steps would otherwise keep n^2 / 2 rows. Its formulas are
// differentiable.
struct TapeReading : torch::autograd::Function<TapeReading> {
  using Variables = torch::autograd::variable_list;

  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& question, const at::Tensor& score,
                            const at::Tensor& kept, at::TensorList tape) {
    Variables inputs = {question, score};
    inputs.insert(inputs.end(), tape.begin(), tape.end());
    context->save_for_backward(std::move(inputs));
    context->saved_data["kept"] = kept;
    return Weights(Hidden(question, kept), score).unsqueeze(1).matmul(States(question, kept)).squeeze(1);
  }

  static Variables backward(torch::autograd::AutogradContext* context, const Variables& gradients) {
    const Variables inputs = context->get_saved_variables(), tape(inputs.begin() + 2, inputs.end());
    const at::Tensor& score = inputs[1];
    // Autocast leaves the parameter alone in its type.
    const at::ScalarType type = score.scalar_type();
    const at::Tensor question = inputs[0].to(type), gradient = gradients[0].to(type).unsqueeze(1);
    // A second derivative goes through the tape: `kept` has no history.
    const at::Tensor kept = (at::GradMode::is_enabled() ? at::stack(tape, 1) : context->saved_data["kept"].toTensor()).to(type);
    const at::Tensor hidden = Hidden(question, kept), weights = Weights(hidden, score);
    const at::Tensor by_weight = weights * gradient.matmul(States(question, kept).transpose(1, 2)).squeeze(1);
    const at::Tensor by_logit = (by_weight - weights * by_weight.sum(1, /*keepdim=*/true)).unsqueeze(2);
    const at::Tensor by_row = by_logit * score * (1 - hidden.square());
    Variables results = {by_row.sum(1), (by_logit * hidden).sum({0, 1}), {}};
    const Variables rows = at::cat({by_row, weights.unsqueeze(2) * gradient}, 2).unbind(1);
    results.insert(results.end(), rows.begin(), rows.end());
    return results;
  }

 private:
  static at::Tensor Hidden(const at::Tensor& question, const at::Tensor& kept) {
    return (kept.narrow(2, 0, question.size(1)) + question.unsqueeze(1)).tanh();
  }
  static at::Tensor Weights(const at::Tensor& hidden, const at::Tensor& score) { return hidden.matmul(score).softmax(1); }
  static at::Tensor States(const at::Tensor& question, const at::Tensor& kept) {
    return kept.narrow(2, question.size(1), 2 * question.size(1));
  }
};

}  // namespace

LstmnImpl::LstmnImpl(int64_t input_size_, int64_t hidden_size_, bool bias_)
    : input_size(input_size_), hidden_size(hidden_size_), bias(bias_) {
  CheckSizes("Lstmn", input_size, hidden_size);
  reset();
}

void LstmnImpl::reset() {
  score_state = register_parameter("score_state", at::empty({hidden_size, hidden_size}));
  score_input = register_parameter("score_input", at::empty({hidden_size, input_size}));
  score_summary = register_parameter("score_summary", at::empty({hidden_size, hidden_size}));
  score = register_parameter("score", at::empty({hidden_size}));
  gates = register_parameter("gates", at::empty({4 * hidden_size, hidden_size + input_size}));
  if (bias) gates_bias = register_parameter("gates_bias", at::empty({4 * hidden_size}));
  const double bound = 1 / std::sqrt(static_cast<double>(hidden_size));
  for (at::Tensor& parameter : parameters()) torch::nn::init::uniform_(parameter, -bound, bound);
}

torch::Tensor LstmnImpl::forward(const torch::Tensor& X) {
  CheckInput("Lstmn", X, input_size);
  const int64_t batch = X.size(0), steps = X.size(1);
  // What of the scores and gates is known before the first step.
  const at::Tensor from_summary = gates.narrow(1, 0, hidden_size);
  const auto asked = at::linear(X, score_input).unbind(1);
  const auto entering = at::linear(X, gates.narrow(1, hidden_size, input_size), gates_bias).unbind(1);
  at::Tensor summary = X.new_zeros({batch, hidden_size}), memory = summary, kept;
  std::vector<at::Tensor> states, tape;
  for (int64_t t = 0; t < steps; ++t) {
    if (t > 0) {
      const at::Tensor question = asked[t] + at::linear(summary, score_summary);
      const auto seen = TapeReading::apply(question, score, kept.narrow(1, 0, t), at::TensorList(tape)).chunk(2, 1);
      summary = seen[0];
      memory = seen[1];
    }
    const auto gate = (entering[t] + at::linear(summary, from_summary)).chunk(4, 1);
    const at::Tensor cell = gate[1].sigmoid() * memory + gate[0].sigmoid() * gate[2].tanh();
    states.push_back(gate[3].sigmoid() * cell.tanh());
    tape.push_back(at::cat({at::linear(states.back(), score_state), states.back(), cell}, 1));
    if (t == 0) kept = at::empty({batch, steps, 3 * hidden_size}, tape.back().options());
    kept.select(1, t).copy_(tape.back().detach());
  }
  return states.empty() ? X.new_zeros({batch, 0, hidden_size}) : at::stack(states, 1);
}

IntraDecoderImpl::IntraDecoderImpl(int64_t input_size_, int64_t hidden_size_, bool bias_)
    : input_size(input_size_), hidden_size(hidden_size_), bias(bias_) {
  CheckSizes("IntraDecoder", input_size, hidden_size);
  reset();
}

void IntraDecoderImpl::reset() {
  using torch::nn::LinearOptions;
  cell = register_module("cell", torch::nn::LSTM(torch::nn::LSTMOptions(input_size, hidden_size).bias(bias).batch_first(true)));
  attend = register_module("attend", torch::nn::Linear(LinearOptions(hidden_size, hidden_size).bias(false)));
  combine = register_module("combine", torch::nn::Linear(LinearOptions(2 * hidden_size, hidden_size).bias(bias)));
}

torch::Tensor IntraDecoderImpl::forward(const torch::Tensor& X) {
  CheckInput("IntraDecoder", X, input_size);
  const at::Tensor h = std::get<0>(cell(X)), states = h.unsqueeze(1);
  // A query stands one step before its own, so that it sees what is earlier.
  const at::Tensor place = at::arange(X.size(1), at::kLong);
  const auto call = AttentionOptions().scale(1.0).causal(Causal::kBottomRight).query_positions(place - 1).key_positions(place);
  const at::Tensor earlier = attention(states, attend(h).unsqueeze(1), states, call).output.squeeze(1);
  return combine(at::cat({h, earlier}, 2));
}

template <class Reader>
OneWayEncoder<Reader>::OneWayEncoder(const char* name, EncoderOptions options_) : ResidualEncoder(name, std::move(options_)) {
  const int64_t hidden = WidthOfAWay(name, options);
  for (int64_t l = 0; l < options.layers(); ++l) {
    const std::string reader = "reader" + std::to_string(l);
    readers.push_back(register_module(reader, MakeReader<Reader>(options, hidden)));
    if (options.causal()) continue;
    reverse_readers.push_back(register_module(reader + "_reverse", MakeReader<Reader>(options, hidden)));
  }
  AddNormsAndFfns();
}

template <class Reader>
torch::Tensor OneWayEncoder<Reader>::Mixed(std::size_t layer, const torch::Tensor& X, const Rows& rows) {
  at::Tensor forwards = readers[layer](X);
  if (options.causal()) return forwards;
  return at::cat({forwards, FromTheEnd(reverse_readers[layer](FromTheEnd(X, rows.lengths)), rows.lengths)}, 2);
}

template class OneWayEncoder<Lstmn>;
template class OneWayEncoder<IntraDecoder>;
template class OneWayEncoder<LinearMixer>;

}  // namespace heed::nn
