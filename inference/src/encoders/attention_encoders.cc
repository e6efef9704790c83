// The encoders of attention without recurrence, which can go on from a cache where they are causal.
#include <algorithm>
#include <optional>

#include "batch_attention.h"
#include "encoders/residual_encoder.h"
#include "heed/error.h"
#include "heed/positional_encoding.h"
#include "heed/scheme_formulas.h"
#include "heed/thread_workspace.h"
#include "heed/transformer.h"
#include "parameter.h"

namespace heed {
namespace {

TransformerEncoderBlockOptions BlockOf(const EncoderOptions& options) {
  TransformerEncoderBlockOptions block;
  block.attention.num_hiddens = options.width;
  block.attention.num_heads = options.heads;
  block.attention.bias = options.bias;
  block.attention.causal = options.causal ? Causal::kBottomRight : Causal::kNone;
  block.attention.position = PositionNamed(options.position, options.max_distance, options.causal);
  block.attention.query_key_norm = options.query_key_norm;
  block.ffn_num_hiddens = options.ffn_width;
  block.norm = Norm::kPre;
  block.activation = Activation::kGelu;
  return block;
}

// Parameters learned.weight, block0.*, block1.*, .., final_norm.*.
class AttentionEncoder final : public SequenceEncoder {
 public:
  explicit AttentionEncoder(const EncoderOptions& options) : options_(options), final_norm_(options.width) {
    if (options.position == "learned") learned_.emplace(options.width, options.max_len);
    for (int64_t l = 0; l < options.layers; ++l) blocks_.emplace_back(BlockOf(options));
  }

  Parameters parameters() override {
    Parameters own;
    if (learned_) own.Add("learned", learned_->parameters());
    for (std::size_t l = 0; l < blocks_.size(); ++l) own.Add("block" + std::to_string(l), blocks_[l].parameters());
    own.Add("final_norm", final_norm_.parameters());
    return own;
  }

  bool CanStep() const override { return options_.causal; }
  LayerCaches NewCaches() const override {
    LayerCaches caches;
    if (!CanStep()) return caches;
    caches.keys.reserve(blocks_.size());
    for (const TransformerEncoderBlock& block : blocks_) caches.keys.push_back(block.attention().NewCache(/*batch=*/1));
    return caches;
  }

  void Forward(View<float, 3> X, const EncoderCall& call) const override {
    const ModelWorkspace::Frame frame(call.workspace);
    Blank(X, call.lengths);
    AddPositions(X, call);
    const bool timed = call.times.present() && TakesTimes(options_.position) && options_.position != "sinusoidal";
    MultiHeadCall own{LengthsOf(X, call), nullptr, timed ? call.times : View<const double, 2>()};
    for (std::size_t l = 0; l < blocks_.size(); ++l) {
      if (call.caches != nullptr) own.cache = &call.caches->keys[l];
      blocks_[l].Forward(X, own, call.workspace, call.executor);
    }
    final_norm_.Forward(AllRows(X), AllRows(X));
    Blank(X, call.lengths);
  }

 private:
  void AddPositions(View<float, 3> X, const EncoderCall& call) const {
    const int64_t offset = call.caches != nullptr ? call.caches->length() : 0;
    if (learned_) return learned_->Forward(X, X, offset);
    if (options_.position != "sinusoidal") return;
    const ModelWorkspace::Frame frame(call.workspace);
    const int64_t rows = X.extent[0], steps = X.extent[1], width = X.extent[2];
    const View<float, 2> table = call.workspace.TakeRows(steps, width);
    for (int64_t row = 0; row < rows; ++row) {
      if (call.times.present()) {
        const auto times = View<const double, 1>::Contiguous(&call.times(row, 0), {steps});
        SinusoidalTable({}, times, table);
      } else if (row == 0) {
        SinusoidalTable({}, offset, table);
      }
      for (int64_t i = 0; i < table.size(); ++i) X.data[row * table.size() + i] += table.data[i];
    }
  }

  EncoderOptions options_;
  std::optional<LearnedPositions> learned_;
  std::vector<TransformerEncoderBlock> blocks_;
  LayerNorm final_norm_;
};

// Layers of Parikh et al. 2016: attend, a bias by distance, compare; see heed/nn/decomposable_attention.h. Parameters
// attention0.attend.*, attention0.position.relative_bias [heads, 2 * max_distance + 1], attention0.compare.*, ..
class DecomposableEncoder final : public ResidualEncoder {
 public:
  explicit DecomposableEncoder(const EncoderOptions& options) : ResidualEncoder(options) {
    if (options.heads < 1 || options.width % options.heads != 0)
      throw InvalidArgument("decomposable: width (" + std::to_string(options.width) +
                            ") must be a positive multiple of heads (" + std::to_string(options.heads) + ")");
    for (int64_t l = 0; l < options.layers; ++l) layers_.emplace_back(options.width);
  }

  bool CanStep() const override { return options().causal; }
  LayerCaches NewCaches() const override {
    LayerCaches caches;
    const int64_t heads = options().heads, head_dim = options().width / heads;
    for (std::size_t l = 0; CanStep() && l < layers_.size(); ++l) caches.keys.emplace_back(1, heads, head_dim, head_dim);
    return caches;
  }

 private:
  struct Layer {
    explicit Layer(int64_t width)
        : attend(width, width, Activation::kGelu), compare(width, width, Activation::kGelu, 2 * width) {}
    PositionWiseFFN attend, compare;
    std::vector<float> bias;
  };

  int64_t Offsets() const { return 2 * options().max_distance + 1; }

  void AddMixParameters(int64_t layer, Parameters& own) override {
    Layer& mine = layers_[layer];
    const std::string name = "attention" + std::to_string(layer);
    own.Add(name + ".attend", mine.attend.parameters());
    own.list.push_back(KeptIn(mine.bias, name + ".position.relative_bias", {options().heads, Offsets()}));
    own.Add(name + ".compare", mine.compare.parameters());
  }

  void Mix(int64_t layer, View<float, 3> X, View<float, 3> Y, const EncoderCall& call) const override {
    const ModelWorkspace::Frame frame(call.workspace);
    const Layer& mine = layers_[layer];
    const int64_t batch = X.extent[0], steps = X.extent[1], width = X.extent[2], heads = options().heads,
                  head_dim = width / heads;
    const View<float, 2> rows = AllRows(X), asked = call.workspace.TakeRows(rows.extent[0], width),
                         beside = call.workspace.TakeRows(rows.extent[0], 2 * width);
    mine.attend.Forward(rows, asked, call.workspace, call.executor);
    for (int64_t i = 0; i < rows.extent[0]; ++i) std::copy_n(&rows(i, 0), width, &beside(i, 0));
    const auto by_head = [&](float* first, int64_t row_stride) {
      return View<float, 4>{first, {batch, heads, steps, head_dim}, {steps * row_stride, head_dim, row_stride, 1}};
    };
    Attention attention;
    attention.scale = 1.0;
    attention.causal = options().causal ? Causal::kBottomRight : Causal::kNone;
    attention.relative_bias = RelativeBias{View<const float, 2>::Contiguous(mine.bias.data(), {heads, Offsets()})};
    attention.key_lengths = LengthsOf(X, call);
    const View<float, 4> query = by_head(asked.data, width), value = by_head(X.data, width),
                         aligned = by_head(beside.data + width, 2 * width);
    if (call.caches != nullptr) {
      KeyValueCache<float>& cache = call.caches->keys[layer];
      cache.Append(query, value);
      cache.Attend(attention, query, aligned, {}, ThreadWorkspace(), call.executor);
    } else {
      ForwardBatch(attention, query, query, value, aligned, call.lengths, call.executor);
    }
    mine.compare.Forward(beside, AllRows(Y), call.workspace, call.executor);
  }

  std::vector<Layer> layers_;
};

}  // namespace

std::unique_ptr<SequenceEncoder> MakeAttentionEncoder(const EncoderOptions& options) {
  if (options.encoder == "decomposable") return std::make_unique<DecomposableEncoder>(options);
  return std::make_unique<AttentionEncoder>(options);
}

}  // namespace heed
