#include "golden_modules.h"

#include <ATen/ATen.h>

#include "heed/nn/encoders.h"
#include "heed/nn/positions.h"
#include "heed/nn/transformer_decoder.h"

namespace heed::nn {
namespace {

std::string KindOf(const GoldenCase& golden) { return golden.manifest.at("kind"); }

// The width of the first of these inputs that the case has.
int64_t InputWidth(const GoldenCase& golden, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (golden.Has("input." + name)) return golden.At("input." + name).size(-1);
  }
  throw std::out_of_range("the case has none of the inputs");
}

// A number of the manifest; `otherwise` where it is null or absent.
int64_t Number(const GoldenCase& golden, const char* name, int64_t otherwise) {
  const auto found = golden.options.find(name);
  return found == golden.options.end() || found->is_null() ? otherwise : found->get<int64_t>();
}

// The width of all heads together.
int64_t InnerWidth(const GoldenCase& golden, int64_t heads, int64_t query_width) {
  for (const char* width : {"num_hiddens", "embed_dim", "qkv_features", "hidden_size"}) {
    if (const int64_t number = Number(golden, width, 0); number != 0) return number;
  }
  for (const char* width : {"key_dim", "d_kv"}) {
    if (const int64_t number = Number(golden, width, 0); number != 0) return heads * number;
  }
  return query_width;
}

bool IsCausal(const GoldenCase& golden) {
  return golden.options.value("use_causal_mask", false) || golden.options.value("is_decoder", false);
}

void AddPosition(const GoldenCase& golden, MultiHeadAttentionOptions& options) {
  if (KindOf(golden).starts_with("T5")) {
    PositionOptions t5{.scheme = PositionScheme::kT5, .max_distance = golden.options.at("max_distance")};
    t5.buckets = golden.options.at("num_buckets");
    options.position(t5);
  }
  const auto kind = golden.options.find("position_embedding_type");
  if (kind == golden.options.end()) return;
  const int64_t distance = golden.options.at("max_position_embeddings").get<int64_t>() - 1;
  options.position(Shaw(options.num_hiddens() / options.num_heads(), distance, /*with_values=*/false,
                        /*with_queries=*/*kind == "relative_key_query"));
}

EncoderOptions StackOptions(const GoldenCase& golden) {
  const TransformerEncoderBlockOptions block = BlockOptionsOf(golden);
  return EncoderOptions(block.num_hiddens())
      .layers(golden.options.at("num_layers"))
      .heads(block.num_heads())
      .ffn_width(block.ffn_num_hiddens())
      .bias(block.bias())
      .norm(block.norm())
      .activation(block.activation())
      .layer_norm_eps(block.layer_norm_eps());
}

std::shared_ptr<torch::nn::Module> Made(const GoldenCase& golden) {
  const std::string kind = KindOf(golden);
  if (kind == "d2l.TransformerEncoderBlock" || kind.ends_with("nn.TransformerEncoderLayer")) {
    return TransformerEncoderBlock(BlockOptionsOf(golden)).ptr();
  }
  if (kind == "d2l.TransformerEncoder") {
    return TransformerEncoder(golden.options.at("vocab_size").get<int64_t>(), golden.options.at("num_blks").get<int64_t>(),
                              BlockOptionsOf(golden))
        .ptr();
  }
  if (kind == "torch.nn.TransformerEncoder") return AttentionEncoder(StackOptions(golden)).ptr();
  if (kind == "torch.nn.TransformerDecoderLayer") {
    const TransformerEncoderBlockOptions block = BlockOptionsOf(golden);
    return TransformerDecoderBlock(
               TransformerDecoderBlockOptions(block.num_hiddens(), block.ffn_num_hiddens(), block.num_heads()).bias(true))
        .ptr();
  }
  const bool is_attention = kind.find("Attention") != std::string::npos || kind.starts_with("BERT");
  return is_attention ? AttentionOf(golden).ptr() : nullptr;
}

}  // namespace

EmptyRow EmptyRowOf(const GoldenCase& golden) {
  return golden.options.value("mask_policy", "").starts_with("d2l_1_0") ? EmptyRow::kUniform : EmptyRow::kZero;
}

MultiHeadAttention AttentionOf(const GoldenCase& golden) {
  const int64_t heads = golden.options.at("num_heads");
  const int64_t query = InputWidth(golden, {"X", "queries", "query", "inputs_q"});
  const int64_t key = InputWidth(golden, {"X", "keys", "key", "inputs_kv"});
  const int64_t value = InputWidth(golden, {"X", "values", "value", "inputs_kv"});
  const int64_t inner = InnerWidth(golden, heads, query);
  const bool bias = golden.options.value("bias", golden.options.value("use_bias", true));
  if (golden.manifest.at("framework").value("d2l", "") == "0.17.6" && golden.framework() == Framework::kTorch) {
    MultiHeadAttention attention(key, query, value, inner, heads, /*dropout=*/0.0, bias);
    attention->options.empty_row(EmptyRowOf(golden)).keep_attention_weights(true);
    return attention;
  }
  MultiHeadAttentionOptions options(golden.At("output.Y").size(-1), heads);
  options.bias(bias).query_size(query).key_size(key).value_size(value).kv_heads(Number(golden, "num_key_value_heads", 0));
  options.head_dim(inner / heads).empty_row(EmptyRowOf(golden)).keep_attention_weights(true);
  if (IsCausal(golden)) options.causal(Causal::kBottomRight);
  const auto scale = golden.options.find("scale");
  if (scale != golden.options.end() && scale->is_number()) options.scale(scale->get<double>());
  AddPosition(golden, options);
  return MultiHeadAttention(options);
}

TransformerEncoderBlockOptions BlockOptionsOf(const GoldenCase& golden) {
  const auto& options = golden.options;
  const bool d2l = options.contains("num_hiddens");
  const bool pre_norm = options.value("norm_first", options.value("normalize_before", false));
  EXPECT_EQ(options.value("norm", "post"), "post");
  return TransformerEncoderBlockOptions(options.at(d2l ? "num_hiddens" : "d_model"),
                                        options.at(d2l ? "ffn_num_hiddens" : "dim_feedforward"),
                                        options.at(d2l ? "num_heads" : "nhead"))
      .bias(options.value("attention_bias", options.value("bias", true)))
      .norm(pre_norm ? Norm::kPre : Norm::kPost)
      .activation(options.at("activation") == "gelu" ? Activation::kGelu : Activation::kRelu)
      .layer_norm_eps(options.at("layer_norm_eps"))
      .causal(options.value("causal", false) ? Causal::kBottomRight : Causal::kNone)
      .empty_row(EmptyRowOf(golden))
      .keep_attention_weights(true);
}

std::shared_ptr<torch::nn::Module> ModuleOf(const GoldenCase& golden) {
  const TensorMap parameters = golden.WithPrefix("param.");
  if (parameters.empty()) return nullptr;
  std::shared_ptr<torch::nn::Module> module = Made(golden);
  if (module) module->to(parameters.begin()->second.scalar_type());
  return module;
}

Layers LayersOf(const GoldenCase& golden) {
  const std::string kind = KindOf(golden);
  if (kind.starts_with("d2l")) return Layers::kD2l;
  if (kind.starts_with("T5")) return Layers::kT5;
  if (kind.starts_with("flax.nnx")) return Layers::kNnx;
  return kind.starts_with("BERT") ? Layers::kBert : Layers::kOwn;
}

TensorMap CheckpointOf(const GoldenCase& golden) {
  TensorMap parameters = golden.WithPrefix("param.");
  if (!KindOf(golden).starts_with("BERT")) return parameters;
  TensorMap attention;
  for (const auto& [name, tensor] : parameters) attention["self." + name] = tensor;
  const int64_t width = golden.options.at("hidden_size");
  attention["output.dense.weight"] = at::eye(width, at::kDouble);
  attention["output.dense.bias"] = at::zeros({width}, at::kDouble);
  return attention;
}

void ExpectGradients(const GoldenCase& golden, torch::nn::Module& module, const at::Tensor& output,
                     const std::vector<std::pair<std::string, at::Tensor>>& inputs) {
  if (!golden.Has("grad_output.G")) return;
  (output * golden.At("grad_output.G")).sum().backward();
  for (const auto& [name, input] : inputs) {
    if (golden.Has("grad.input." + name)) golden.ExpectClose(input.grad(), "grad.input." + name, "grad");
  }
  const bool no_biases = LayersOf(golden) == Layers::kOwn && !golden.options.value("bias", true);
  {
    const at::NoGradGuard no_grad;
    for (const auto& item : module.named_parameters()) {
      item.value().copy_(item.value().grad());
      if (no_biases && item.key().ends_with("bias")) item.value().zero_();  // the framework's layer has none
    }
  }
  TensorMap gradients = export_weights(module, golden.framework(), LayersOf(golden));
  const TensorMap expected = golden.WithPrefix("grad.param.");
  EXPECT_EQ(gradients.size(), CheckpointOf(golden).size());
  for (const auto& [name, gradient] : expected) {
    const std::string ours = gradients.count(name) == 0 ? "self." + name : name;
    ASSERT_EQ(gradients.count(ours), 1u) << name;
    golden.ExpectClose(gradients.at(ours), "grad.param." + name, "grad");
  }
}

}  // namespace heed::nn
