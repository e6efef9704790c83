#include "heed/nn/encoders.h"

#include <memory>
#include <string>
#include <utility>
#include <variant>

#include <ATen/ATen.h>
#include <torch/nn/functional/padding.h>
#include <torch/nn/utils/rnn.h>

#include "attention_call.h"
#include "heed/error.h"
#include "valid_lens.h"

namespace heed::nn {
namespace {

torch::nn::LayerNorm MakeLayerNorm(const EncoderOptions& options) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({options.width()}).eps(options.layer_norm_eps()));
}

void CheckOptions(const char* encoder, const EncoderOptions& options) {
  if (options.width() < 1 || options.layers() < 0 || options.ffn_width() < 0) {
    throw InvalidArgument(std::string(encoder) + ": expected a width of at least 1, layers and ffn_width of at least 0, got " +
                          std::to_string(options.width()) + ", " + std::to_string(options.layers()) + " and " +
                          std::to_string(options.ffn_width()));
  }
  if (!(options.dropout() >= 0.0 && options.dropout() < 1.0)) {
    throw InvalidArgument(std::string(encoder) + ": dropout must lie in [0, 1), got " + std::to_string(options.dropout()));
  }
}

void CheckInput(const char* encoder, const at::Tensor& X, int64_t width) {
  if (!X.defined() || X.dim() != 3 || X.size(2) != width) {
    throw InvalidArgument(std::string(encoder) + ": X: expected shape [batch, steps, " + std::to_string(width) + "], got " +
                          (X.defined() ? ShapeText(X) : "an undefined tensor"));
  }
}

// Which steps are padding, [batch, steps, 1]; undefined without lengths.
at::Tensor Padding(const at::Tensor& lengths, int64_t steps) {
  if (!lengths.defined()) return {};
  return at::arange(steps, lengths.options()).ge(lengths.unsqueeze(1)).unsqueeze(2);
}

// Zeros where there is padding. Filled, not multiplied: what stands there may be NaN.
at::Tensor Blank(const at::Tensor& X, const at::Tensor& padding) { return padding.defined() ? X.masked_fill(padding, 0.0) : X; }

TransformerEncoderBlockOptions BlockOptions(const EncoderOptions& options) {
  TransformerEncoderBlockOptions block(options.width(), options.ffn_width(), options.heads());
  block.dropout(options.dropout()).bias(options.bias()).norm(options.norm()).activation(options.activation());
  block.layer_norm_eps(options.layer_norm_eps()).keep_attention_weights(options.keep_attention_weights());
  block.causal(options.causal() ? Causal::kBottomRight : Causal::kNone);
  if (!AddsToInput(options.position().scheme)) block.position(options.position());
  return block;
}

int64_t Dilation(const EncoderOptions& options, int64_t layer) {
  int64_t dilation = 1;
  for (int64_t l = 0; options.dilated() && l < layer; ++l) {
    if (__builtin_mul_overflow(dilation, options.kernel(), &dilation) || dilation > (int64_t{1} << 40)) {
      throw InvalidArgument("ConvolutionEncoder: layers (" + std::to_string(options.layers()) + ") and kernel (" +
                            std::to_string(options.kernel()) + ") make a dilation that is too large");
    }
  }
  return dilation;
}

torch::nn::Conv1d MakeConvolution(const EncoderOptions& options, int64_t layer) {
  return torch::nn::Conv1d(torch::nn::Conv1dOptions(options.width(), options.width(), options.kernel())
                               .dilation(Dilation(options, layer))
                               .bias(options.bias()));
}

template <class Cell, class CellOptions>
std::shared_ptr<torch::nn::Module> MakeCell(const EncoderOptions& options) {
  const int64_t hidden = options.causal() ? options.width() : options.width() / 2;
  return Cell(CellOptions(options.width(), hidden).bias(options.bias()).batch_first(true).bidirectional(!options.causal()))
      .ptr();
}

std::shared_ptr<torch::nn::Module> MakeCell(const EncoderOptions& options) {
  if (options.cell() == "rnn") return MakeCell<torch::nn::RNN, torch::nn::RNNOptions>(options);
  if (options.cell() == "gru") return MakeCell<torch::nn::GRU, torch::nn::GRUOptions>(options);
  if (options.cell() == "lstm") return MakeCell<torch::nn::LSTM, torch::nn::LSTMOptions>(options);
  throw InvalidArgument("RecurrentEncoder: cell: '" + options.cell() + "' is unknown; expected rnn, gru or lstm");
}

// Calls f with the cell as what it is; RNN, GRU and LSTM share no interface.
template <class F>
auto VisitCell(torch::nn::Module& cell, const F& f) {
  if (auto* gru = cell.as<torch::nn::GRUImpl>()) return f(*gru);
  if (auto* lstm = cell.as<torch::nn::LSTMImpl>()) return f(*lstm);
  return f(*cell.as<torch::nn::RNNImpl>());
}

// The cell's outputs for all steps. Lengths matter only to a cell that also reads backwards: it must start at the last step
// that counts.
at::Tensor Run(torch::nn::Module& cell, const at::Tensor& X, const at::Tensor& lengths) {
  if (!lengths.defined()) {
    return VisitCell(cell, [&](auto& layer) { return std::get<0>(layer.forward(X)); });
  }
  // A packed row has at least one step; that of an empty row is blanked by the caller on both sides.
  const auto packed = torch::nn::utils::rnn::pack_padded_sequence(X, lengths.clamp_min(1).cpu(), /*batch_first=*/true,
                                                                  /*enforce_sorted=*/false);
  const auto output = VisitCell(cell, [&](auto& layer) { return std::get<0>(layer.forward_with_packed_input(packed)); });
  return std::get<0>(torch::nn::utils::rnn::pad_packed_sequence(output, /*batch_first=*/true, 0.0, X.size(1)));
}

// What convolutional and recurrent encoders share: X + dropout(mix(norm(X))), then the same with the feed-forward sublayer;
// post-norm normalises the sums instead.
template <class Encoder, class Mix>
at::Tensor ResidualLayers(Encoder& encoder, at::Tensor X, const Mix& mix) {
  const EncoderOptions& options = encoder.options;
  const bool pre = options.norm() == Norm::kPre;
  const auto sublayer = [&](torch::nn::LayerNorm& norm, const auto& f) {
    const at::Tensor Y = at::dropout(f(pre ? norm(X) : X), options.dropout(), encoder.is_training());
    X = pre ? X + Y : norm(X + Y);
  };
  X = at::dropout(X, options.dropout(), encoder.is_training());
  for (size_t l = 0; l < encoder.norms.size(); ++l) {
    sublayer(encoder.norms[l], [&](const at::Tensor& Y) { return mix(l, Y); });
    if (!encoder.ffns.empty()) sublayer(encoder.ffn_norms[l], [&](const at::Tensor& Y) { return encoder.ffns[l](Y); });
  }
  return encoder.final_norm ? encoder.final_norm(X) : X;
}

// Names in the state dict: norm0, ffn_norm0, ffn0, ..., final_norm.
template <class Encoder>
void AddNormsAndFfns(Encoder& encoder) {
  const EncoderOptions& options = encoder.options;
  for (int64_t l = 0; l < options.layers(); ++l) {
    const std::string number = std::to_string(l);
    encoder.norms.push_back(encoder.register_module("norm" + number, MakeLayerNorm(options)));
    if (options.ffn_width() == 0) continue;
    encoder.ffn_norms.push_back(encoder.register_module("ffn_norm" + number, MakeLayerNorm(options)));
    encoder.ffns.push_back(
        encoder.register_module("ffn" + number, PositionWiseFFN(options.width(), options.ffn_width(), options.activation())));
  }
  if (options.norm() == Norm::kPre) encoder.final_norm = encoder.register_module("final_norm", MakeLayerNorm(options));
}

}  // namespace

torch::Tensor SequenceEncoder::step(const torch::Tensor&, LayerCaches&) {
  throw InvalidArgument("step: this encoder cannot go on from a cache; only causal self-attention can");
}

AttentionEncoderImpl::AttentionEncoderImpl(EncoderOptions options_) : options(std::move(options_)) {
  CheckOptions("AttentionEncoder", options);
  const PositionOptions& position = options.position();
  if (position.scheme == PositionScheme::kSinusoidal) {
    sinusoidal =
        register_module("sinusoidal", PositionalEncoding(options.width(), 0.0, position.max_len, position.length_policy));
  } else if (position.scheme == PositionScheme::kLearned) {
    learned = register_module("learned", LearnedPositions(options.width(), 0.0, position.max_len, position.length_policy));
  }
  for (int64_t l = 0; l < options.layers(); ++l) {
    blocks.push_back(register_module("block" + std::to_string(l), TransformerEncoderBlock(BlockOptions(options))));
  }
  if (options.norm() == Norm::kPre) final_norm = register_module("final_norm", MakeLayerNorm(options));
}

torch::Tensor AttentionEncoderImpl::forward(const torch::Tensor& X, const torch::Tensor& valid_lens, int64_t offset) {
  CheckInput("AttentionEncoder", X, options.width());
  const at::Tensor lengths = ClampValidLens(valid_lens, X.size(0), -1, X.size(1));
  at::Tensor Y = Input(X, offset);
  for (auto& block : blocks) Y = block(Y, lengths);
  return final_norm ? final_norm(Y) : Y;
}

torch::Tensor AttentionEncoderImpl::step(const torch::Tensor& X, LayerCaches& caches) {
  if (!CanStep()) return SequenceEncoder::step(X, caches);
  CheckInput("AttentionEncoder", X, options.width());
  if (caches.size() != blocks.size()) {
    throw InvalidArgument("AttentionEncoder: caches: expected one for each of " + std::to_string(blocks.size()) +
                          " layers, got " + std::to_string(caches.size()));
  }
  at::Tensor Y = Input(X, caches.length());
  for (std::size_t l = 0; l < blocks.size(); ++l) Y = blocks[l](Y, at::Tensor(), &caches[l]);
  return final_norm ? final_norm(Y) : Y;
}

torch::Tensor AttentionEncoderImpl::Input(const torch::Tensor& X, int64_t offset) {
  at::Tensor Y = X;
  if (sinusoidal) Y = sinusoidal(Y, offset);
  if (learned) Y = learned(Y, offset);
  return at::dropout(Y, options.dropout(), is_training());
}

std::vector<torch::Tensor> AttentionEncoderImpl::attention_weights() const {
  std::vector<torch::Tensor> weights;
  for (const auto& block : blocks) {
    const torch::Tensor& last = block->attention->attention_weights();
    if (last.defined()) weights.push_back(last);
  }
  return weights;
}

ConvolutionEncoderImpl::ConvolutionEncoderImpl(EncoderOptions options_) : options(std::move(options_)) {
  CheckOptions("ConvolutionEncoder", options);
  if (options.kernel() < 1 || (!options.causal() && options.kernel() % 2 == 0)) {
    throw InvalidArgument("ConvolutionEncoder: kernel must be positive, and odd unless causal, got " +
                          std::to_string(options.kernel()));
  }
  for (int64_t l = 0; l < options.layers(); ++l) {
    convolutions.push_back(register_module("convolution" + std::to_string(l), MakeConvolution(options, l)));
  }
  AddNormsAndFfns(*this);
}

torch::Tensor ConvolutionEncoderImpl::forward(const torch::Tensor& X, const torch::Tensor& valid_lens, int64_t) {
  CheckInput("ConvolutionEncoder", X, options.width());
  const at::Tensor padding = Padding(ClampValidLens(valid_lens, X.size(0), -1, X.size(1)), X.size(1));
  return ResidualLayers(*this, Blank(X, padding), [&](size_t l, const at::Tensor& Y) {
    const int64_t reach = (options.kernel() - 1) * Dilation(options, static_cast<int64_t>(l));
    const int64_t left = options.causal() ? reach : reach / 2;
    const at::Tensor padded = at::constant_pad_nd(Blank(Y, padding).transpose(1, 2), {left, reach - left});
    return Activate(convolutions[l](padded).transpose(1, 2), options.activation());
  });
}

RecurrentEncoderImpl::RecurrentEncoderImpl(EncoderOptions options_) : options(std::move(options_)) {
  CheckOptions("RecurrentEncoder", options);
  if (!options.causal() && options.width() % 2 != 0) {
    throw InvalidArgument("RecurrentEncoder: width must be even unless causal (half reads forwards, half backwards), got " +
                          std::to_string(options.width()));
  }
  for (int64_t l = 0; l < options.layers(); ++l) {
    cells.push_back(register_module("cell" + std::to_string(l), MakeCell(options)));
  }
  AddNormsAndFfns(*this);
}

torch::Tensor RecurrentEncoderImpl::forward(const torch::Tensor& X, const torch::Tensor& valid_lens, int64_t) {
  CheckInput("RecurrentEncoder", X, options.width());
  const at::Tensor lengths = ClampValidLens(valid_lens, X.size(0), -1, X.size(1));
  const at::Tensor padding = Padding(lengths, X.size(1));
  return ResidualLayers(*this, Blank(X, padding), [&](size_t l, const at::Tensor& Y) {
    return Blank(Run(*cells[l], Blank(Y, padding), options.causal() ? at::Tensor() : lengths), padding);
  });
}

std::shared_ptr<SequenceEncoder> MakeEncoder(const std::string& name, EncoderOptions options) {
  if (name == "attention") return std::make_shared<AttentionEncoderImpl>(std::move(options));
  if (name == "convolution") return std::make_shared<ConvolutionEncoderImpl>(std::move(options.dilated(false)));
  if (name == "dilated") return std::make_shared<ConvolutionEncoderImpl>(std::move(options.dilated(true)));
  if (name == "rnn" || name == "gru" || name == "lstm") {
    return std::make_shared<RecurrentEncoderImpl>(std::move(options.cell(name)));
  }
  throw InvalidArgument("encoder: '" + name + "' is unknown; expected one of attention, convolution, dilated, rnn, gru, lstm");
}

}  // namespace heed::nn
