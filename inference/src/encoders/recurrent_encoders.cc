// The encoders with a recurrence: by itself, and below attention.
#include <array>
#include <cmath>
#include <utility>

#include "batch_attention.h"
#include "encoders/recurrent_cell.h"
#include "encoders/residual_encoder.h"
#include "heed/error.h"
#include "heed/portable_math.h"
#include "parameter.h"

namespace heed {
namespace {

// Parameters cell0, cell1, ..
class RecurrentEncoder : public ResidualEncoder {
 public:
  RecurrentEncoder(const EncoderOptions& options, const std::string& cell) : ResidualEncoder(options) {
    const int64_t hidden = WidthOfAWay();
    for (int64_t l = 0; l < options.layers; ++l)
      cells_.emplace_back(cell, options.width, hidden, options.bias, /*both_ways=*/!options.causal);
  }

 protected:
  void AddMixParameters(int64_t layer, Parameters& own) override {
    own.Add("cell" + std::to_string(layer), cells_[layer].parameters());
  }
  void Mix(int64_t layer, View<float, 3> X, View<float, 3> Y, const EncoderCall& call) const override {
    cells_[layer].Forward(X, Y, call);
  }

 private:
  std::vector<RecurrentCell> cells_;
};

// Y becomes Y + MultiHeadAttention(Y, Y, Y). Parameters also attention0, ..
class RecurrentAttentionEncoder final : public RecurrentEncoder {
 public:
  explicit RecurrentAttentionEncoder(const EncoderOptions& options) : RecurrentEncoder(options, "gru") {
    MultiHeadAttentionOptions attention;
    attention.num_hiddens = options.width, attention.num_heads = options.heads, attention.bias = options.bias;
    attention.causal = options.causal ? Causal::kBottomRight : Causal::kNone;
    for (int64_t l = 0; l < options.layers; ++l) attentions_.emplace_back(attention);
  }

 private:
  void AddMixParameters(int64_t layer, Parameters& own) override {
    RecurrentEncoder::AddMixParameters(layer, own);
    own.Add("attention" + std::to_string(layer), attentions_[layer].parameters());
  }
  void Mix(int64_t layer, View<float, 3> X, View<float, 3> Y, const EncoderCall& call) const override {
    RecurrentEncoder::Mix(layer, X, Y, call);
    const ModelWorkspace::Frame frame(call.workspace);
    const View<float, 2> rows = AllRows(Y), added = call.workspace.TakeRows(rows.extent[0], rows.extent[1]);
    attentions_[layer].Forward(Y, Y, Y, View<float, 3>::Contiguous(added.data, Y.extent), MultiHeadCall{LengthsOf(Y, call)},
                               call.workspace, call.executor);
    for (int64_t i = 0; i < rows.size(); ++i) rows.data[i] += added.data[i];
  }

  std::vector<MultiHeadAttention> attentions_;
};

// The structured attention of Lin et al. 2017, given back to every step: see heed/nn/attention_models.h. Parameters also
// attention0.W_s1.weight, attention0.W_s2.weight, combine0.weight, combine0.bias, ..
class SelfAttentiveEncoder final : public RecurrentEncoder {
 public:
  explicit SelfAttentiveEncoder(const EncoderOptions& options) : RecurrentEncoder(options, "lstm") {
    if (options.heads < 1 || options.width % options.heads != 0)
      throw InvalidArgument("self-attentive: width (" + std::to_string(options.width) +
                            ") must be a positive multiple of heads (" + std::to_string(options.heads) + ")");
    for (int64_t l = 0; l < options.layers; ++l) layers_.emplace_back(options);
  }

 private:
  struct Layer {
    explicit Layer(const EncoderOptions& options)
        : hidden(options.width, options.width, /*bias=*/false), combine(static_cast<std::size_t>(options.heads)) {}
    Linear hidden;                      // W_s1
    std::vector<float> questions;       // W_s2, [heads, width]
    std::vector<PackedMatrix> combine;  // by head, [width / heads, width]
    std::vector<float> bias;
  };

  void AddMixParameters(int64_t layer, Parameters& own) override;
  void Mix(int64_t layer, View<float, 3> X, View<float, 3> Y, const EncoderCall& call) const override;

  std::vector<Layer> layers_;
};

void SelfAttentiveEncoder::AddMixParameters(int64_t layer, Parameters& own) {
  RecurrentEncoder::AddMixParameters(layer, own);
  Layer& mine = layers_[layer];
  const int64_t width = options().width, heads = options().heads, share = width / heads;
  const std::string number = std::to_string(layer);
  own.Add("attention" + number + ".W_s1", mine.hidden.parameters());
  own.list.push_back(KeptIn(mine.questions, "attention" + number + ".W_s2.weight", {heads, width}));
  own.list.push_back(
      {"combine" + number + ".weight", {width, width}, [=, &mine](std::span<const float> values) {
         for (int64_t h = 0; h < heads; ++h)
           mine.combine[h] = PackedMatrix(View<const float, 2>::Contiguous(values.data() + h * share * width, {share, width}));
       }});
  if (options().bias) own.list.push_back(KeptIn(mine.bias, "combine" + number + ".bias", {width}));
}

void SelfAttentiveEncoder::Mix(int64_t layer, View<float, 3> X, View<float, 3> Y, const EncoderCall& call) const {
  RecurrentEncoder::Mix(layer, X, Y, call);
  const Layer& mine = layers_[layer];
  const ModelWorkspace::Frame frame(call.workspace);
  const int64_t batch = Y.extent[0], steps = Y.extent[1], width = Y.extent[2], heads = options().heads, share = width / heads;
  const int64_t embeddings = options().causal ? steps : 1;  // of a row
  const View<float, 2> states = AllRows(Y), hidden = call.workspace.TakeRows(states.extent[0], width),
                       M = call.workspace.TakeRows(batch * embeddings, heads * width),
                       given = call.workspace.TakeRows(batch * embeddings, width);
  mine.hidden.Forward(states, hidden, call.executor);
  for (int64_t i = 0; i < hidden.size(); ++i) hidden.data[i] = portable::Tanh(hidden.data[i]);
  Attention attention;
  attention.scale = 1.0;
  attention.causal = options().causal ? Causal::kBottomRight : Causal::kNone;
  attention.key_lengths = LengthsOf(Y, call);
  const std::array<int64_t, 4> steps_of{batch, 1, steps, width};
  const View<const float, 4> q{mine.questions.data(), {batch, heads, embeddings, width}, {0, width, 0, 1}};
  const View<float, 4> out{M.data, {batch, heads, embeddings, width}, {embeddings * heads * width, width, heads * width, 1}};
  // Embeddings of a causal row are as many as its steps.
  ForwardBatch(attention, q, View<const float, 4>::Contiguous(hidden.data, steps_of),
               View<const float, 4>::Contiguous(Y.data, steps_of), out, options().causal ? call.lengths : nullptr,
               call.executor);
  for (int64_t h = 0; h < heads; ++h) {
    const View<const float, 2> from{M.data + h * width, {M.extent[0], width}, {heads * width, 1}};
    const auto bias =
        mine.bias.empty() ? View<const float, 1>() : View<const float, 1>::Contiguous(mine.bias.data() + h * share, {share});
    mine.combine[h].Multiply(from, bias, {given.data + h * share, {given.extent[0], share}, {width, 1}}, call.executor);
  }
  for (int64_t i = 0; i < states.extent[0]; ++i) {
    const int64_t own = options().causal ? i : i / steps;
    for (int64_t c = 0; c < width; ++c) states(i, c) += given(own, c);
  }
}

}  // namespace

std::unique_ptr<SequenceEncoder> MakeRecurrentEncoder(const EncoderOptions& options) {
  if (options.encoder == "gru-attention") return std::make_unique<RecurrentAttentionEncoder>(options);
  if (options.encoder == "self-attentive") return std::make_unique<SelfAttentiveEncoder>(options);
  return std::make_unique<RecurrentEncoder>(options, options.encoder);
}

}  // namespace heed
