#include "residual_layers.h"

#include <limits>
#include <string>
#include <utility>

#include "attention_call.h"
#include "heed/nn/dropout.h"
#include "refuse.h"
#include "sequence.h"
#include "tensor_view.h"

namespace heed::nn {
namespace {

void CheckLens(const at::Tensor& valid_lens, const c10::SymInt& batch, const c10::SymInt& queries) {
  CheckDense("valid_lens", valid_lens, valid_lens.device().type());
  const bool per_batch = valid_lens.dim() == 1 && valid_lens.sym_size(0) == batch;
  const bool per_query =
      valid_lens.dim() == 2 && queries >= 0 && valid_lens.sym_size(0) == batch && valid_lens.sym_size(1) == queries;
  if (!per_batch && !per_query) {
    Refuse(c10::str("valid_lens: expected shape [", batch, "]",
                    queries >= 0 ? c10::str(" or [", batch, ", ", queries, "]") : "", ", got "),
           ShapeText(valid_lens));
  }
  if (valid_lens.is_complex() || valid_lens.scalar_type() == at::kBool) {
    Refuse("valid_lens: expected integers or real numbers, got ", valid_lens.scalar_type());
  }
}

// The same numbers in a type that holds `steps`.
at::Tensor InWideType(const at::Tensor& lengths) {
  if (lengths.is_floating_point()) return lengths.to(at::kDouble).nan_to_num(0.0).ceil();
  const at::Tensor whole = lengths.to(at::kLong);
  // What does not fit is more than any number of steps.
  return lengths.scalar_type() == at::kUInt64 ? whole.masked_fill(whole.lt(0), std::numeric_limits<int64_t>::max()) : whole;
}

}  // namespace

torch::nn::LayerNorm MakeLayerNorm(int64_t width, double eps) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}).eps(eps));
}

void CheckDropout(const char* layer, double dropout) {
  if (!(dropout >= 0.0 && dropout < 1.0)) Refuse(layer, ": dropout must lie in [0, 1), got ", dropout);
}

void CheckOptions(const char* encoder, const EncoderOptions& options) {
  if (options.width() < 1 || options.layers() < 0 || options.ffn_width() < 0) {
    Refuse(encoder, ": expected a width of at least 1, layers and ffn_width of at least 0, got ", options.width(), ", ",
           options.layers(), " and ", options.ffn_width());
  }
  CheckDropout(encoder, options.dropout());
}

void CheckInput(const char* layer, const at::Tensor& X, int64_t width, const char* name) {
  if (!X.defined() || X.dim() != 3 || X.size(2) != width) {
    Refuse(layer, ": ", name, ": expected shape [batch, steps, ", width, "], got ", ShapeText(X));
  }
}

int64_t WidthOfAWay(const char* encoder, const EncoderOptions& options) {
  if (options.causal()) return options.width();
  if (options.width() % 2 != 0) {
    Refuse(encoder, ": width must be even unless causal (half reads forwards, half backwards), got ", options.width());
  }
  return options.width() / 2;
}

void CheckCaches(const char* encoder, LayerCaches& caches, std::size_t layers, bool states) {
  if (caches.size() != layers) {
    Refuse(encoder, ": caches: expected one for each of ", layers, " layers, got ", caches.size());
  }
  if (layers > 0 && caches.length() != (states ? caches.state(0).length : caches[0].length()))
    Refuse(encoder, ": caches: expected ",
           states ? "states of an encoder in linear time, got keys and values"
                  : "keys and values, got states of an encoder in linear time");
}

at::Tensor ClampValidLens(const at::Tensor& valid_lens, const c10::SymInt& batch, const c10::SymInt& queries,
                          const c10::SymInt& steps) {
  if (!valid_lens.defined()) return valid_lens;
  CheckLens(valid_lens, batch, queries);
  return InWideType(valid_lens.detach()).clamp(0, steps).to(at::kLong);
}

at::Tensor Padding(const at::Tensor& lengths, int64_t steps) {
  if (!lengths.defined()) return {};
  return TokensOfSequence(steps, lengths.options()).ge(lengths.unsqueeze(1)).unsqueeze(2);
}

at::Tensor Blank(const at::Tensor& X, const at::Tensor& padding) { return padding.defined() ? X.masked_fill(padding, 0.0) : X; }

ResidualEncoder::ResidualEncoder(const char* name, EncoderOptions options_, bool in_parts)
    : options(std::move(options_)), name_(name), in_parts_(in_parts) {
  CheckOptions(name, options);
}

torch::Tensor ResidualEncoder::forward(const torch::Tensor& X, const torch::Tensor& valid_lens, int64_t) {
  CheckInput(name_, X, options.width());
  if (!in_parts_) RefuseSequencePart(name_, "a step is computed of others, which other ranks may have");
  const at::Tensor lengths = ClampValidLens(valid_lens, X.size(0), -1, StepsOfSequence(X.size(1)));
  const Rows rows{lengths, Padding(lengths, X.size(1))};
  const auto mix = [&](std::size_t l, const at::Tensor& Y) { return Mixed(l, Y, rows); };
  return Blank(Layers(Blank(X, rows.padding), mix), rows.padding);
}

void ResidualEncoder::AddNormsAndFfns() {
  for (int64_t l = 0; l < options.layers(); ++l) {
    const std::string number = std::to_string(l);
    norms.push_back(register_module("norm" + number, MakeLayerNorm(options.width(), options.layer_norm_eps())));
    if (options.ffn_width() == 0) continue;
    ffn_norms.push_back(register_module("ffn_norm" + number, MakeLayerNorm(options.width(), options.layer_norm_eps())));
    ffns.push_back(
        register_module("ffn" + number, PositionWiseFFN(options.width(), options.ffn_width(), options.activation())));
  }
  if (options.norm() == Norm::kPre)
    final_norm = register_module("final_norm", MakeLayerNorm(options.width(), options.layer_norm_eps()));
}

torch::Tensor ResidualEncoder::Layers(torch::Tensor X, const Mix& mix) {
  const bool pre = options.norm() == Norm::kPre;
  const auto sublayer = [&](torch::nn::LayerNorm& norm, const auto& f) {
    const at::Tensor Y = drop_elements(f(pre ? norm(X) : X), options.dropout(), is_training());
    X = pre ? X + Y : norm(X + Y);
  };
  X = drop_elements(X, options.dropout(), is_training());
  for (std::size_t l = 0; l < norms.size(); ++l) {
    sublayer(norms[l], [&](const at::Tensor& Y) { return mix(l, Y); });
    if (!ffns.empty()) sublayer(ffn_norms[l], [&](const at::Tensor& Y) { return ffns[l](Y); });
  }
  return final_norm ? final_norm(X) : X;
}

}  // namespace heed::nn
