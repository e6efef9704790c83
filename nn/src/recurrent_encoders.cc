// The encoders with a recurrence: by itself, and below attention.
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include <torch/nn/utils/rnn.h>

#include "heed/nn/attention_models.h"
#include "refuse.h"
#include "residual_layers.h"

namespace heed::nn {
namespace {

template <class Cell, class CellOptions>
std::shared_ptr<torch::nn::Module> MakeCell(const EncoderOptions& options, int64_t hidden) {
  return Cell(CellOptions(options.width(), hidden).bias(options.bias()).batch_first(true).bidirectional(!options.causal()))
      .ptr();
}

std::shared_ptr<torch::nn::Module> MakeCell(const EncoderOptions& options, int64_t hidden) {
  if (options.cell() == "rnn") return MakeCell<torch::nn::RNN, torch::nn::RNNOptions>(options, hidden);
  if (options.cell() == "gru") return MakeCell<torch::nn::GRU, torch::nn::GRUOptions>(options, hidden);
  if (options.cell() == "lstm") return MakeCell<torch::nn::LSTM, torch::nn::LSTMOptions>(options, hidden);
  Refuse("RecurrentEncoder: cell: '", options.cell(), "' is unknown; expected rnn, gru or lstm");
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
at::Tensor OutputsOf(torch::nn::Module& cell, const at::Tensor& X, const at::Tensor& lengths) {
  if (!lengths.defined()) {
    return VisitCell(cell, [&](auto& layer) { return std::get<0>(layer.forward(X)); });
  }
  // A packed row has at least one step; that of an empty row is blanked by the caller on both sides.
  const auto packed = torch::nn::utils::rnn::pack_padded_sequence(X, lengths.clamp_min(1).cpu(), /*batch_first=*/true,
                                                                  /*enforce_sorted=*/false);
  const auto output = VisitCell(cell, [&](auto& layer) { return std::get<0>(layer.forward_with_packed_input(packed)); });
  return std::get<0>(torch::nn::utils::rnn::pad_packed_sequence(output, /*batch_first=*/true, 0.0, X.size(1)));
}

template <class Encoder>
void AddCells(const char* name, Encoder& encoder) {
  const EncoderOptions& options = encoder.options;
  const int64_t hidden = WidthOfAWay(name, options);
  for (int64_t l = 0; l < options.layers(); ++l) {
    encoder.cells.push_back(encoder.register_module("cell" + std::to_string(l), MakeCell(options, hidden)));
  }
}

// The states of a layer, zeros in the padding.
at::Tensor States(const EncoderOptions& options, torch::nn::Module& cell, const at::Tensor& X, const at::Tensor& lengths,
                  const at::Tensor& padding) {
  return Blank(OutputsOf(cell, Blank(X, padding), options.causal() ? at::Tensor() : lengths), padding);
}

MultiHeadAttentionOptions AttentionOf(const EncoderOptions& options) {
  return MultiHeadAttentionOptions(options.width(), options.heads())
      .dropout(options.dropout())
      .bias(options.bias())
      .causal(options.causal() ? Causal::kBottomRight : Causal::kNone);
}

}  // namespace

RecurrentEncoderImpl::RecurrentEncoderImpl(EncoderOptions options_) : ResidualEncoder("RecurrentEncoder", std::move(options_)) {
  AddCells("RecurrentEncoder", *this);
  AddNormsAndFfns();
}

torch::Tensor RecurrentEncoderImpl::Mixed(std::size_t layer, const torch::Tensor& X, const Rows& rows) {
  return States(options, *cells[layer], X, rows.lengths, rows.padding);
}

RecurrentAttentionEncoderImpl::RecurrentAttentionEncoderImpl(EncoderOptions options_)
    : ResidualEncoder("RecurrentAttentionEncoder", std::move(options_)) {
  AddCells("RecurrentAttentionEncoder", *this);
  for (int64_t l = 0; l < options.layers(); ++l) {
    attentions.push_back(register_module("attention" + std::to_string(l), MultiHeadAttention(AttentionOf(options))));
  }
  AddNormsAndFfns();
}

torch::Tensor RecurrentAttentionEncoderImpl::Mixed(std::size_t layer, const torch::Tensor& X, const Rows& rows) {
  const at::Tensor H = States(options, *cells[layer], X, rows.lengths, rows.padding);
  return H + attentions[layer](H, H, H, rows.lengths);
}

SelfAttentiveEncoderImpl::SelfAttentiveEncoderImpl(EncoderOptions options_)
    : ResidualEncoder("SelfAttentiveEncoder", std::move(options_.cell("lstm"))) {
  AddCells("SelfAttentiveEncoder", *this);
  if (options.heads() < 1 || options.width() % options.heads() != 0) {
    Refuse("SelfAttentiveEncoder: width (", options.width(), ") must be a positive multiple of heads (", options.heads(), ")");
  }
  const auto attention =
      StructuredAttentionOptions(options.width(), options.heads()).dropout(options.dropout()).causal(options.causal());
  const auto combine = torch::nn::LinearOptions(options.width(), options.width()).bias(options.bias());
  for (int64_t l = 0; l < options.layers(); ++l) {
    attentions.push_back(register_module("attention" + std::to_string(l), StructuredAttention(attention)));
    combines.push_back(register_module("combine" + std::to_string(l), torch::nn::Linear(combine)));
  }
  AddNormsAndFfns();
}

torch::Tensor SelfAttentiveEncoderImpl::mix(std::size_t layer, const torch::Tensor& H, const torch::Tensor& lengths) {
  const at::Tensor M = attentions[layer](H, lengths).unflatten(2, {options.heads(), options.width()});
  const at::Tensor W = combines[layer]->weight.unflatten(0, {options.heads(), -1}), &bias = combines[layer]->bias;
  const at::Tensor given = H + at::einsum("bnrc,rkc->bnrk", {M, W}).flatten(2);
  return bias.defined() ? given + bias : given;
}

torch::Tensor SelfAttentiveEncoderImpl::Mixed(std::size_t layer, const torch::Tensor& X, const Rows& rows) {
  return mix(layer, States(options, *cells[layer], X, rows.lengths, rows.padding), rows.lengths);
}

}  // namespace heed::nn
