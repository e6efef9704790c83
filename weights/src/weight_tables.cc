#include "weight_tables.h"

#include <algorithm>
#include <utility>

#include "heed/error.h"

namespace heed {
namespace {

using enum Layout;
using enum LayerPart;

constexpr std::pair<std::string_view, LayerPart> kParts[] = {
    {"W_q", kQuery},           {"W_k", kKey},           {"W_v", kValue},   {"W_o", kOutput}, {"position", kScheme},
    {"dense1", kDense},        {"dense2", kDense},      {"dense", kDense}, {"ln", kNorm},    {"final_norm", kNorm},
    {"embedding", kEmbedding}, {"learned", kPositions}, {"head", kHead},
};

// d2l's layers: norms and dense layers keep their place; a pre-norm stack's last norm is heed's own.

constexpr PathRow kD2lPaths[] = {{"blks.block#", "blks.#"}, {"final_norm", kNoCounterpart}};
constexpr PathRow kFlaxPaths[] = {{"blks.block#", "blks_#"}, {"ln", "LayerNorm_0"}, {"final_norm", kNoCounterpart}};

// flax.linen, and flax.nnx beside it
constexpr WeightRow kFlaxRows[] = {
    {kDense, "weight", "kernel", kTransposed}, {kDense, "bias", "bias"}, {kNorm, "weight", "scale"}, {kNorm, "bias", "bias"},
    {kEmbedding, "weight", "embedding"},
};
constexpr WeightRow kKerasRows[] = {
    {kDense, "weight", "kernel", kTransposed}, {kDense, "bias", "bias"}, {kNorm, "weight", "gamma"}, {kNorm, "bias", "beta"},
    {kEmbedding, "weight", "embeddings"},
};
// The groups of a .weights.h5 file
constexpr WeightRow kKerasFileRows[] = {
    {kDense, "weight", "vars.0", kTransposed},
    {kDense, "bias", "vars.1"},
    {kNorm, "weight", "vars.0"},
    {kNorm, "bias", "vars.1"},
    {kEmbedding, "weight", "vars.0"},
};
constexpr WeightRow kPaddleRows[] = {
    {kDense, "weight", "weight", kTransposed}, {kDense, "bias", "bias"}, {kNorm, "weight", "weight"}, {kNorm, "bias", "bias"},
    {kEmbedding, "weight", "weight"},
};
// As block.save_parameters names them
constexpr WeightRow kMxnetRows[] = {
    {kDense, "weight", "weight"}, {kDense, "bias", "bias"},         {kNorm, "weight", "gamma"},
    {kNorm, "bias", "beta"},      {kEmbedding, "weight", "weight"},
};

// torch.nn.MultiheadAttention, TransformerEncoderLayer, TransformerDecoderLayer and their stacks

constexpr PathRow kTorchPaths[] = {
    {"blks.block#", "layers.#", {}, "addnorm1"},
    {"block#", "layers.#", {}, "addnorm1"},
    {"attention", "self_attn", "addnorm1"},
    {"attention1", "self_attn", "addnorm1"},
    {"attention2", "multihead_attn", "addnorm1"},
    {"addnorm1.ln", "norm1"},
    {"addnorm2.ln", "norm2"},
    {"addnorm3.ln", "norm3"},
    {"ffn.dense1", "linear1", "addnorm1"},
    {"ffn.dense2", "linear2", "addnorm1"},
    {"final_norm", "norm", "blks"},
    {"final_norm", "norm", "block0"},
};
constexpr WeightRow kTorchAttention[] = {
    {kQuery, {}, "in_proj_", kFirstThird, kFirstThird},
    {kKey, {}, "in_proj_", kSecondThird, kSecondThird},
    {kValue, {}, "in_proj_", kLastThird, kLastThird},
    {kQuery, "weight", "q_proj_weight"},
    {kKey, "weight", "k_proj_weight"},
    {kValue, "weight", "v_proj_weight"},
    {kOutput, {}, "out_proj."},
};

// flax.linen.MultiHeadDotProductAttention and flax.nnx.MultiHeadAttention
constexpr WeightRow kFlaxAttention[] = {{kQuery, {}, "query.", kHeadsIn, kHeadsBias},
                                        {kKey, {}, "key.", kHeadsIn, kHeadsBias},
                                        {kValue, {}, "value.", kHeadsIn, kHeadsBias},
                                        {kOutput, {}, "out.", kHeadsOut}};

// keras.layers.MultiHeadAttention and GroupQueryAttention, and their groups in a .weights.h5 file
constexpr WeightRow kKerasAttention[] = {{kQuery, {}, "query.", kHeadsIn, kHeadsBias},
                                         {kKey, {}, "key.", kHeadsIn, kHeadsBias},
                                         {kValue, {}, "value.", kHeadsIn, kHeadsBias},
                                         {kOutput, {}, "attention_output.", kHeadsOut}};
constexpr WeightRow kKerasFileAttention[] = {{kQuery, {}, "query_dense.", kHeadsIn, kHeadsBias},
                                             {kKey, {}, "key_dense.", kHeadsIn, kHeadsBias},
                                             {kValue, {}, "value_dense.", kHeadsIn, kHeadsBias},
                                             {kOutput, {}, "output_dense.", kHeadsOut}};
constexpr WeightRow kKerasFileGroupedAttention[] = {{kQuery, {}, "_query_dense.", kHeadsIn, kHeadsBias},
                                                    {kKey, {}, "_key_dense.", kHeadsIn, kHeadsBias},
                                                    {kValue, {}, "_value_dense.", kHeadsIn, kHeadsBias},
                                                    {kOutput, {}, "_output_dense.", kHeadsOut}};

// paddle.nn.MultiHeadAttention, TransformerEncoderLayer, TransformerDecoderLayer and their stacks
constexpr PathRow kPaddlePaths[] = {
    {"blks.block#", "layers.#", {}, "addnorm1"},
    {"block#", "layers.#", {}, "addnorm1"},
    {"attention", "self_attn", "addnorm1"},
    {"attention1", "self_attn", "addnorm1"},
    {"attention2", "cross_attn", "addnorm1"},
    {"addnorm1.ln", "norm1"},
    {"addnorm2.ln", "norm2"},
    {"addnorm3.ln", "norm3"},
    {"ffn.dense1", "linear1", "addnorm1"},
    {"ffn.dense2", "linear2", "addnorm1"},
    {"final_norm", "norm", "blks"},
    {"final_norm", "norm", "block0"},
    {"final_norm", kNoCounterpart},
};
constexpr WeightRow kPaddleAttention[] = {{kQuery, {}, "q_proj.", kTransposed},
                                          {kKey, {}, "k_proj.", kTransposed},
                                          {kValue, {}, "v_proj.", kTransposed},
                                          {kOutput, {}, "out_proj.", kTransposed}};

// GluonNLP 1, TransformerEncoderLayer; then the cells of GluonNLP 0. Attention is no layer of its own in either.
constexpr PathRow kNewGluonPaths[] = {
    {"blks.block#", "layers.#", {}, "addnorm1"},
    {"block#", "layers.#", {}, "addnorm1"},
    {"attention", "", "addnorm1"},
    {"addnorm1.ln", "layer_norm", "attention"},
    {"addnorm2.ln", "ffn.layer_norm", "attention"},
    {"ffn.dense1", "ffn.ffn_1", "attention"},
    {"ffn.dense2", "ffn.ffn_2", "attention"},
    {"final_norm", kNoCounterpart},
    {"attention1", kNoCounterpart, "addnorm1"},
};
constexpr PathRow kGluonPaths[] = {
    {"blks.block#", "transformer_cells.#", {}, "addnorm1"},
    {"block#", "transformer_cells.#", {}, "addnorm1"},
    {"attention", "", "addnorm1"},
    {"addnorm1.ln", "layer_norm", "attention"},
    {"addnorm2.ln", "ffn.layer_norm", "attention"},
    {"ffn.dense1", "ffn.ffn_1", "attention"},
    {"ffn.dense2", "ffn.ffn_2", "attention"},
    {"final_norm", kNoCounterpart},
    {"attention1", kNoCounterpart, "addnorm1"},
};
constexpr WeightRow kNewGluonAttention[] = {{kQuery, {}, "attn_qkv.", kFirstThird, kFirstThird},
                                            {kKey, {}, "attn_qkv.", kSecondThird, kSecondThird},
                                            {kValue, {}, "attn_qkv.", kLastThird, kLastThird},
                                            {kOutput, {}, "attention_proj."}};
constexpr WeightRow kGluonAttention[] = {{kQuery, {}, "attention_cell.proj_query."},
                                         {kKey, {}, "attention_cell.proj_key."},
                                         {kValue, {}, "attention_cell.proj_value."},
                                         {kOutput, {}, "proj."}};

constexpr AttentionLimits kKeyWidths{false, false, false, true};

constexpr WeightTable kTorchTables[] = {
    {.layers = Layers::kD2l, .names_of = "d2l's layers for torch", .keeps_others = true},
    {.layers = Layers::kOwn,
     .names_of = "torch.nn's layers",
     .paths = kTorchPaths,
     .attention = kTorchAttention,
     .keeps_others = true,
     .limits = kKeyWidths,
     .biases = Biases::kSwitch},
};
constexpr WeightTable kFlaxTables[] = {
    {.layers = Layers::kD2l,
     .names_of = "d2l's layers for flax",
     .paths = kFlaxPaths,
     .rest = kFlaxRows,
     .separator = '/',
     .scope = "params"},
    {.layers = Layers::kOwn,
     .names_of = "flax's own attention and d2l's layers around it",
     .paths = kFlaxPaths,
     .attention = kFlaxAttention,
     .rest = kFlaxRows,
     .separator = '/',
     .scope = "params"},
    {.layers = Layers::kNnx,
     .names_of = "flax.nnx's attention and d2l's layers around it",
     .paths = kD2lPaths,
     .attention = kFlaxAttention,
     .rest = kFlaxRows},
    {.layers = Layers::kD2l,
     .names_of = "d2l's layers for flax.nnx",
     .is_written = false,
     .paths = kD2lPaths,
     .rest = kFlaxRows},
};
constexpr WeightTable kKerasTables[] = {
    {.layers = Layers::kD2l, .names_of = "d2l's layers for keras", .paths = kD2lPaths, .rest = kKerasRows, .separator = '/'},
    {.layers = Layers::kOwn,
     .names_of = "keras's own attention and d2l's layers around it",
     .paths = kD2lPaths,
     .attention = kKerasAttention,
     .rest = kKerasRows,
     .separator = '/'},
    {.layers = Layers::kD2l,
     .names_of = "d2l's layers in a file of keras",
     .is_written = false,
     .paths = kD2lPaths,
     .rest = kKerasFileRows},
    {.layers = Layers::kOwn,
     .names_of = "attention in a file of keras",
     .is_written = false,
     .paths = kD2lPaths,
     .attention = kKerasFileAttention,
     .rest = kKerasFileRows},
    {.layers = Layers::kOwn,
     .names_of = "grouped attention in a file of keras",
     .is_written = false,
     .paths = kD2lPaths,
     .attention = kKerasFileGroupedAttention,
     .rest = kKerasFileRows},
};
constexpr WeightTable kPaddleTables[] = {
    {.layers = Layers::kD2l, .names_of = "d2l's layers for paddle", .paths = kD2lPaths, .rest = kPaddleRows},
    {.layers = Layers::kOwn,
     .names_of = "paddle.nn's layers",
     .paths = kPaddlePaths,
     .attention = kPaddleAttention,
     .rest = kPaddleRows,
     .limits = kKeyWidths},
};
constexpr WeightTable kMxnetTables[] = {
    {.layers = Layers::kD2l, .names_of = "d2l's layers for mxnet", .paths = kD2lPaths, .rest = kMxnetRows},
    {.layers = Layers::kOwn,
     .names_of = "GluonNLP's cells",
     .paths = kGluonPaths,
     .attention = kGluonAttention,
     .rest = kMxnetRows,
     .limits = kOneWidth},
    {.layers = Layers::kOwn,
     .names_of = "GluonNLP 1's layers",
     .is_written = false,
     .paths = kNewGluonPaths,
     .attention = kNewGluonAttention,
     .rest = kMxnetRows},
};
// In the order of Framework.
constexpr FrameworkFacts kFrameworks[] = {
    {"torch", "pt"},
    {"flax", "flax"},
    {"keras", "tf", Numbering::kKeras},
    {"paddle", "pd"},
    {"mxnet", "mx", Numbering::kGluon},
    {"hf", "pt"},
    {"nanogpt", "pt"},
};

// In the order of Layers.
constexpr const char* kLayers[] = {"usual", "d2l", "own", "nnx", "bert", "vit", "gpt2", "llama", "t5"};

struct Constant {
  std::string_view end;
  std::size_t rank;
};
// Causal masks of GPT-2 and nanoGPT, and what they put in a masked place; rotary frequencies of old Llamas.
constexpr Constant kConstants[] = {{"attn.bias", 4}, {"attn.masked_bias", 0}, {"rotary_emb.inv_freq", 1}};

}  // namespace

std::optional<LayerPart> PartOf(std::string_view layer) {
  for (const auto& [name, part] : kParts) {
    if (layer == name) return part;
  }
  return std::nullopt;
}

bool IsProjection(LayerPart part) { return part <= kOutput; }

std::span<const WeightTable> TablesOf(Framework framework) {
  switch (framework) {
    case Framework::kTorch:
      return kTorchTables;
    case Framework::kFlax:
      return kFlaxTables;
    case Framework::kKeras:
      return kKerasTables;
    case Framework::kPaddle:
      return kPaddleTables;
    case Framework::kMxnet:
      return kMxnetTables;
    case Framework::kHf:
      return HuggingFaceTables();
    case Framework::kNanoGpt:
      return NanoGptTables();
  }
  return {};
}

const FrameworkFacts& FactsOf(Framework framework) { return kFrameworks[static_cast<int>(framework)]; }

const char* NameOf(Framework framework) { return FactsOf(framework).name; }
const char* FormatOf(Framework framework) { return FactsOf(framework).format; }
const char* NameOf(Layers layers) { return kLayers[static_cast<int>(layers)]; }

Framework ParseFramework(const std::string& name) {
  std::string known;
  for (const FrameworkFacts& framework : kFrameworks) {
    if (name == framework.name) return static_cast<Framework>(&framework - kFrameworks);
    known += (known.empty() ? "" : ", ") + std::string(framework.name);
  }
  throw InvalidArgument("framework '" + name + "': one of " + known + " is expected");
}

Layers ParseLayers(const std::string& name) {
  std::string known;
  for (std::size_t i = 1; i < std::size(kLayers); ++i) {  // the usual ones are those that nobody asks for by name
    if (name == kLayers[i]) return static_cast<Layers>(i);
    known += (known.empty() ? "" : ", ") + std::string(kLayers[i]);
  }
  throw InvalidArgument("layers '" + name + "': one of " + known + " is expected");
}

bool IsConstant(Framework framework, std::string_view dotted, std::size_t rank) {
  if (framework != Framework::kHf && framework != Framework::kNanoGpt) return false;
  return std::ranges::any_of(kConstants, [&](const Constant& constant) {
    const std::size_t kept = dotted.size() - std::min(dotted.size(), constant.end.size());
    return rank == constant.rank && dotted.ends_with(constant.end) && (kept == 0 || dotted[kept - 1] == '.');
  });
}

}  // namespace heed
