// Encoders around a module that reads forwards alone, Lstmn and IntraDecoder of heed/nn/attention_models.h, LinearMixer of
// heed/nn/linear_encoders.h: where they are not causal, another one with half of the width reads from the end of each row.
#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "batch_attention.h"
#include "encoders/linear_mixer.h"
#include "encoders/recurrent_cell.h"
#include "encoders/residual_encoder.h"
#include "heed/portable_math.h"
#include "parameter.h"

namespace heed {
namespace {

// Cheng et al. 2016. Parameters score_state, score_input, score_summary, score, gates [4 * hidden, hidden + in], gates_bias.
class LstmnReader {
 public:
  LstmnReader(const EncoderOptions& options, int64_t hidden) : in_(options.width), hidden_(hidden), has_bias_(options.bias) {}
  Parameters parameters();
  // X [rows, steps, in] -> Y [rows, steps, hidden], rows of any stride.
  void Forward(View<float, 3> X, View<float, 3> Y, const EncoderCall& call) const;

 private:
  // Of a row at step t: summary and memory, [hidden] each, of the tapes of the steps before, [steps, hidden] each.
  void Recall(int64_t t, const float* question, const float* scored, const float* states, const float* cells, float* weights,
              float* summary, float* memory) const;

  int64_t in_, hidden_;
  bool has_bias_;
  PackedMatrix score_state_, score_input_, score_summary_, from_summary_, from_input_;
  std::vector<float> score_, bias_;
};

Parameters LstmnReader::parameters() {
  Parameters own;
  own.list.push_back(PackedIn(score_state_, "score_state", hidden_, hidden_));
  own.list.push_back(PackedIn(score_input_, "score_input", hidden_, in_));
  own.list.push_back(PackedIn(score_summary_, "score_summary", hidden_, hidden_));
  own.list.push_back(KeptIn(score_, "score", {hidden_}));
  own.list.push_back({"gates", {4 * hidden_, hidden_ + in_}, [this](std::span<const float> values) {
                        const int64_t columns = hidden_ + in_;
                        const auto part = [&](int64_t first, int64_t count) {
                          return PackedMatrix({values.data() + first, {4 * hidden_, count}, {columns, 1}});
                        };
                        from_summary_ = part(0, hidden_), from_input_ = part(hidden_, in_);
                      }});
  if (has_bias_) own.list.push_back(KeptIn(bias_, "gates_bias", {4 * hidden_}));
  return own;
}

void LstmnReader::Recall(int64_t t, const float* question, const float* scored, const float* states, const float* cells,
                         float* weights, float* summary, float* memory) const {
  float largest = -INFINITY, total = 0;
  for (int64_t i = 0; i < t; ++i) {
    float score = 0;
    for (int64_t c = 0; c < hidden_; ++c) score += score_[c] * portable::Tanh(scored[i * hidden_ + c] + question[c]);
    weights[i] = score, largest = std::max(largest, score);
  }
  for (int64_t i = 0; i < t; ++i) total += weights[i] = portable::Exp(weights[i] - largest);
  std::fill_n(summary, hidden_, 0.0f), std::fill_n(memory, hidden_, 0.0f);
  for (int64_t i = 0; i < t; ++i) {
    const float weight = weights[i] / total;
    for (int64_t c = 0; c < hidden_; ++c) {
      summary[c] += weight * states[i * hidden_ + c];
      memory[c] += weight * cells[i * hidden_ + c];
    }
  }
}

void LstmnReader::Forward(View<float, 3> X, View<float, 3> Y, const EncoderCall& call) const {
  ModelWorkspace& workspace = call.workspace;
  const ModelWorkspace::Frame frame(workspace);
  const int64_t rows = X.extent[0], steps = X.extent[1], all = rows * steps;
  const View<float, 2> asked = workspace.TakeRows(all, hidden_), entering = workspace.TakeRows(all, 4 * hidden_),
                       scored = workspace.TakeRows(all, hidden_), states = workspace.TakeRows(all, hidden_),
                       cells = workspace.TakeRows(all, hidden_), summary = workspace.TakeRows(rows, hidden_),
                       memory = workspace.TakeRows(rows, hidden_), question = workspace.TakeRows(rows, hidden_),
                       kept = workspace.TakeRows(rows, 4 * hidden_);
  float* const weights = workspace.Take<float>(steps);
  score_input_.Multiply(AllRows(X), {}, asked, call.executor);
  from_input_.Multiply(AllRows(X), BiasOf(bias_), entering, call.executor);
  std::fill_n(summary.data, summary.size(), 0.0f), std::fill_n(memory.data, memory.size(), 0.0f);
  // Step t of all rows.
  const auto at_step = [&](View<float, 2> of_all, int64_t t) {
    return View<float, 2>{&of_all(t, 0), {rows, of_all.extent[1]}, {steps * of_all.extent[1], 1}};
  };
  for (int64_t t = 0; t < steps; ++t) {
    if (t > 0) {
      score_summary_.Multiply(summary, {}, question, call.executor);
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t c = 0; c < hidden_; ++c) question(row, c) += asked(row * steps + t, c);
        Recall(t, &question(row, 0), &scored(row * steps, 0), &states(row * steps, 0), &cells(row * steps, 0), weights,
               &summary(row, 0), &memory(row, 0));
      }
    }
    from_summary_.Multiply(summary, {}, kept, call.executor);
    for (int64_t row = 0; row < rows; ++row) {
      const auto gate = [&](int64_t g, int64_t c) {
        return entering(row * steps + t, g * hidden_ + c) + kept(row, g * hidden_ + c);
      };
      for (int64_t c = 0; c < hidden_; ++c) {
        const float cell =
            portable::Logistic(gate(1, c)) * memory(row, c) + portable::Logistic(gate(0, c)) * portable::Tanh(gate(2, c));
        cells(row * steps + t, c) = cell;
        states(row * steps + t, c) = Y(row, t, c) = portable::Logistic(gate(3, c)) * portable::Tanh(cell);
      }
    }
    score_state_.Multiply(at_step(states, t), {}, at_step(scored, t), call.executor);
  }
}

// Paulus et al. 2018. Parameters cell.*, attend.weight, combine.weight, combine.bias.
class IntraDecoderReader {
 public:
  IntraDecoderReader(const EncoderOptions& options, int64_t hidden)
      : cell_("lstm", options.width, hidden, options.bias, /*both_ways=*/false),
        attend_(hidden, hidden, /*bias=*/false),
        combine_(2 * hidden, hidden, options.bias) {}
  Parameters parameters() {
    Parameters own;
    own.Add("cell", cell_.parameters());
    own.Add("attend", attend_.parameters());
    own.Add("combine", combine_.parameters());
    return own;
  }
  void Forward(View<float, 3> X, View<float, 3> Y, const EncoderCall& call) const {
    const ModelWorkspace::Frame frame(call.workspace);
    const int64_t rows = X.extent[0], steps = X.extent[1], hidden = attend_.in();
    const View<float, 2> states = call.workspace.TakeRows(rows * steps, hidden),
                         keys = call.workspace.TakeRows(rows * steps, hidden),
                         beside = call.workspace.TakeRows(rows * steps, 2 * hidden);
    cell_.Forward(X, View<float, 3>::Contiguous(states.data, {rows, steps, hidden}), call);
    attend_.Forward(states, keys, call.executor);
    for (int64_t i = 0; i < rows * steps; ++i) std::copy_n(&states(i, 0), hidden, &beside(i, 0));
    Attention attention;
    attention.scale = 1.0;
    attention.causal = Causal::kBottomRight;
    // A query stands one step before its own, so that it sees what is earlier.
    attention.query_positions.offset = -1, attention.key_positions.offset = 0;
    const auto one_head = [&](float* first, int64_t row_stride) {
      return View<float, 4>{first, {rows, 1, steps, hidden}, {steps * row_stride, 0, row_stride, 1}};
    };
    const View<float, 4> q = one_head(states.data, hidden), earlier = one_head(beside.data + hidden, 2 * hidden);
    ForwardBatch(attention, q, one_head(keys.data, hidden), q, earlier, call.lengths, call.executor);
    combine_.Forward(View<const float, 3>::Contiguous(beside.data, {rows, steps, 2 * hidden}), Y, call.executor);
  }

 private:
  RecurrentCell cell_;
  Linear attend_, combine_;
};

// Parameters reader0.*, reader0_reverse.*, reader1.*, ..
template <class Reader>
class OneWayEncoder final : public ResidualEncoder {
  static constexpr bool kKeepsStates = std::is_same_v<Reader, LinearMixer>;

 public:
  explicit OneWayEncoder(const EncoderOptions& options) : ResidualEncoder(options) {
    const int64_t hidden = WidthOfAWay();
    for (int64_t l = 0; l < options.layers; ++l) {
      readers_.emplace_back(options, hidden);
      if (!options.causal) back_.emplace_back(options, hidden);
    }
  }

  bool CanStep() const override { return kKeepsStates && options().causal; }
  LayerCaches NewCaches() const override {
    LayerCaches caches;
    if constexpr (kKeepsStates)
      for (std::size_t l = 0; CanStep() && l < readers_.size(); ++l) caches.states.push_back(readers_[l].NewState());
    return caches;
  }

 private:
  void AddMixParameters(int64_t layer, Parameters& own) override {
    const std::string name = "reader" + std::to_string(layer);
    own.Add(name, readers_[layer].parameters());
    if (!back_.empty()) own.Add(name + "_reverse", back_[layer].parameters());
  }

  void Mix(int64_t layer, View<float, 3> X, View<float, 3> Y, const EncoderCall& call) const override {
    if constexpr (kKeepsStates)
      if (call.caches != nullptr) return readers_[layer].Forward(X, Y, call, &call.caches->states[layer]);
    View<float, 3> forwards = Y;
    if (!back_.empty()) forwards.extent[2] /= 2;
    readers_[layer].Forward(X, forwards, call);
    if (back_.empty()) return;
    const ModelWorkspace::Frame frame(call.workspace);
    const int64_t rows = X.extent[0], steps = X.extent[1], width = X.extent[2], half = width / 2;
    const auto taken = [&](int64_t columns) {
      return View<float, 3>::Contiguous(call.workspace.TakeRows(rows * steps, columns).data, {rows, steps, columns});
    };
    const View<float, 3> mirrored = taken(width), read = taken(half);
    // The steps of each row that count, the last of them first; the padding stays where it is.
    const auto mirror = [&](int64_t row, int64_t step) {
      const int64_t length = call.lengths == nullptr ? steps : call.lengths[row];
      return step < length ? length - 1 - step : step;
    };
    for (int64_t place = 0; place < rows * steps; ++place)
      std::copy_n(&X(place / steps, mirror(place / steps, place % steps), 0), width, &mirrored.data[place * width]);
    back_[layer].Forward(mirrored, read, call);
    for (int64_t place = 0; place < rows * steps; ++place) {
      const int64_t row = place / steps, step = place % steps;
      std::copy_n(&read(row, mirror(row, step), 0), half, &Y(row, step, half));
    }
  }

  std::vector<Reader> readers_, back_;
};

}  // namespace

std::unique_ptr<SequenceEncoder> MakeOneWayEncoder(const EncoderOptions& options) {
  if (options.encoder == "lstmn") return std::make_unique<OneWayEncoder<LstmnReader>>(options);
  if (options.encoder == "intra-decoder") return std::make_unique<OneWayEncoder<IntraDecoderReader>>(options);
  return std::make_unique<OneWayEncoder<LinearMixer>>(options);
}

}  // namespace heed
