#include "heed/transformer.h"

#include <string>

#include "heed/error.h"
#include "heed/shape_text.h"

namespace heed {
namespace {

// sublayer(from, to) takes rows to rows; X becomes what the residual connection around it gives.
template <class Sublayer>
void Residual(Norm norm, const LayerNorm& ln, View<float, 2> X, ModelWorkspace& workspace, const Sublayer& sublayer) {
  const ModelWorkspace::Frame frame(workspace);
  const View<float, 2> out = workspace.TakeRows(X.extent[0], X.extent[1]);
  if (norm == Norm::kPre) {
    const View<float, 2> normal = workspace.TakeRows(X.extent[0], X.extent[1]);
    ln.Forward(X, normal);
    sublayer(normal, out);
  } else {
    sublayer(X, out);
  }
  for (int64_t i = 0; i < X.size(); ++i) X.data[i] += out.data[i];
  if (norm == Norm::kPost) ln.Forward(X, X);
}

}  // namespace

TransformerEncoderBlock::TransformerEncoderBlock(const TransformerEncoderBlockOptions& options)
    : norm_(options.norm), attention_(options.attention), ln1_(options.attention.num_hiddens, options.layer_norm_eps) {
  if (options.ffn_num_hiddens < 0) {
    throw InvalidArgument("TransformerEncoderBlock: ffn_num_hiddens must be 0 or more, got " +
                          std::to_string(options.ffn_num_hiddens));
  }
  const int64_t width = options.attention.num_hiddens;
  const MultiHeadAttentionOptions& own = attention_.options();
  for (const int64_t size : {own.query_size, own.key_size, own.value_size}) {
    if (size == width) continue;
    throw InvalidArgument("TransformerEncoderBlock: attention: expected inputs of the width num_hiddens");
  }
  if (options.ffn_num_hiddens == 0) return;
  ffn_.emplace(width, options.ffn_num_hiddens, options.activation);
  ln2_.emplace(width, options.layer_norm_eps);
}

Parameters TransformerEncoderBlock::parameters() {
  Parameters own;
  own.Add("attention", attention_.parameters());
  own.Add("addnorm1.ln", ln1_.parameters());
  if (ffn_) own.Add("ffn", ffn_->parameters());
  if (ln2_) own.Add("addnorm2.ln", ln2_->parameters());
  return own;
}

void TransformerEncoderBlock::Forward(View<float, 3> X, const MultiHeadCall& call, ModelWorkspace& workspace,
                                      Executor& executor) const {
  if (X.stride != View<float, 3>::Contiguous(X.data, X.extent).stride) {
    throw InvalidArgument("TransformerEncoderBlock: X: expected an array in one piece, row by row, of shape " +
                          ShapeText(X.extent));
  }
  const auto rows = View<float, 2>::Contiguous(X.data, {X.extent[0] * X.extent[1], X.extent[2]});
  Residual(norm_, ln1_, rows, workspace, [&](View<const float, 2> from, View<float, 2> to) {
    const auto Y = View<const float, 3>::Contiguous(from.data, X.extent);
    attention_.Forward(Y, Y, Y, View<float, 3>::Contiguous(to.data, X.extent), call, workspace, executor);
  });
  if (!ffn_) return;
  Residual(norm_, *ln2_, rows, workspace,
           [&](View<const float, 2> from, View<float, 2> to) { ffn_->Forward(from, to, workspace, executor); });
}

void TransformerEncoderBlock::Forward(View<float, 3> X, const Lengths& valid_lens, KeyValueCache<float>* cache,
                                      Executor& executor) const {
  ModelWorkspace workspace;
  Forward(X, MultiHeadCall{valid_lens, cache, {}}, workspace, executor);
}

}  // namespace heed
