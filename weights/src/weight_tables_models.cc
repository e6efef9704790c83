// Models of Hugging Face, and nanoGPT. What is no layer of theirs has no counterpart: decoder blocks, embeddings outside of
// GPT.
#include "weight_tables.h"

namespace heed {
namespace {

using enum Layout;
using enum LayerPart;

constexpr WeightRow kDenseAndNorm[] = {
    {kDense, "weight", "weight"}, {kDense, "bias", "bias"}, {kNorm, "weight", "weight"}, {kNorm, "bias", "bias"}};

constexpr PathRow kBertPaths[] = {
    {"block#", "layer.#", {}, "addnorm1"},
    {"addnorm1.ln", "attention.output.LayerNorm", "attention"},
    {"addnorm2.ln", "output.LayerNorm", "attention"},
    {"ffn.dense1", "intermediate.dense", "attention"},
    {"ffn.dense2", "output.dense", "attention"},
    {"final_norm", kNoCounterpart},
    {"attention1", kNoCounterpart, "addnorm1"},
};
// Shaw's vectors lie there by query position - key position.
constexpr WeightRow kBertAttention[] = {
    {kQuery, {}, "self.query."},
    {kKey, {}, "self.key."},
    {kValue, {}, "self.value."},
    {kOutput, {}, "output.dense."},
    {kScheme, "keys", "self.distance_embedding.weight", kReversed},
    {kScheme, "queries", "self.distance_embedding.weight", kReversed},
};

constexpr PathRow kVitPaths[] = {
    {"block#", "encoder.layer.#", {}, "addnorm1"},
    {"addnorm1.ln", "layernorm_before", "attention"},
    {"addnorm2.ln", "layernorm_after", "attention"},
    {"ffn.dense1", "intermediate.dense", "attention"},
    {"ffn.dense2", "output.dense", "attention"},
    {"final_norm", "layernorm", "block0"},
    {"final_norm", kNoCounterpart},
    {"attention1", kNoCounterpart, "addnorm1"},
};
constexpr WeightRow kVitAttention[] = {{kQuery, {}, "attention.query."},
                                       {kKey, {}, "attention.key."},
                                       {kValue, {}, "attention.value."},
                                       {kOutput, {}, "output.dense."}};
// The state dict of transformers 5; its files have the names above.
constexpr PathRow kVitStatePaths[] = {
    {"block#", "layers.#", {}, "addnorm1"},          {"addnorm1.ln", "layernorm_before", "attention"},
    {"addnorm2.ln", "layernorm_after", "attention"}, {"ffn.dense1", "mlp.fc1", "attention"},
    {"ffn.dense2", "mlp.fc2", "attention"},          {"final_norm", "layernorm", "block0"},
    {"attention1", kNoCounterpart, "addnorm1"},
};

constexpr PathRow kLlamaPaths[] = {{"attention", "self_attn", "addnorm1"}};
constexpr WeightRow kLlamaAttention[] = {
    {kQuery, {}, "q_proj."}, {kKey, {}, "k_proj."}, {kValue, {}, "v_proj."}, {kOutput, {}, "o_proj."}};

constexpr WeightRow kT5Attention[] = {
    {kQuery, "weight", "q.weight"},
    {kKey, "weight", "k.weight"},
    {kValue, "weight", "v.weight"},
    {kOutput, "weight", "o.weight"},
    {kScheme, "weight", "relative_attention_bias.weight"},
};

// A whole model is a module with an embedding, an AttentionEncoder called encoder, and a head unless it is the embedding.
constexpr PathRow kGptPaths[] = {
    {"block#", "h.#", {}, "addnorm1"},
    {"attention", "attn", "addnorm1"},
    {"addnorm1.ln", "ln_1", "attention"},
    {"addnorm2.ln", "ln_2", "attention"},
    {"ffn.dense1", "mlp.c_fc", "attention"},
    {"ffn.dense2", "mlp.c_proj", "attention"},
    {"final_norm", "ln_f", "block0"},
    {"learned", "wpe", "block0"},
    {"encoder", "transformer", "embedding"},
    {"embedding", "transformer.wte", "encoder"},
    {"head", "lm_head", "encoder"},
    {"final_norm", kNoCounterpart},
    {"embedding", kNoCounterpart},
    {"learned", kNoCounterpart},
    {"head", kNoCounterpart},
    {"attention1", kNoCounterpart, "addnorm1"},
};
// As GPT2Model has them
constexpr PathRow kGptInnerPaths[] = {
    {"block#", "h.#", {}, "addnorm1"},
    {"attention", "attn", "addnorm1"},
    {"addnorm1.ln", "ln_1", "attention"},
    {"addnorm2.ln", "ln_2", "attention"},
    {"ffn.dense1", "mlp.c_fc", "attention"},
    {"ffn.dense2", "mlp.c_proj", "attention"},
    {"final_norm", "ln_f", "block0"},
    {"learned", "wpe", "block0"},
    {"encoder", "", "embedding"},
    {"embedding", "wte", "encoder"},
    {"head", kNoCounterpart},
    {"attention1", kNoCounterpart, "addnorm1"},
};
constexpr SecondName kGptSecondNames[] = {{"embedding.weight", "lm_head.weight", "encoder", "head"}};
constexpr WeightRow kGpt2Attention[] = {{kQuery, {}, "c_attn.", kFirstColumns, kFirstThird},
                                        {kKey, {}, "c_attn.", kSecondColumns, kSecondThird},
                                        {kValue, {}, "c_attn.", kLastColumns, kLastThird},
                                        {kOutput, {}, "c_proj.", kTransposed}};
constexpr WeightRow kGpt2Rows[] = {
    {kDense, "weight", "weight", kTransposed},
    {kDense, "bias", "bias"},
    {kNorm, "weight", "weight"},
    {kNorm, "bias", "bias"},
    {kEmbedding, "weight", "weight"},
    {kPositions, "weight", "weight"},
    {kHead, "weight", "weight"},
};
constexpr WeightRow kNanoGptAttention[] = {{kQuery, {}, "c_attn.", kFirstThird, kFirstThird},
                                           {kKey, {}, "c_attn.", kSecondThird, kSecondThird},
                                           {kValue, {}, "c_attn.", kLastThird, kLastThird},
                                           {kOutput, {}, "c_proj."}};
constexpr WeightRow kNanoGptRows[] = {
    {kDense, "weight", "weight"},     {kDense, "bias", "bias"},         {kNorm, "weight", "weight"}, {kNorm, "bias", "bias"},
    {kEmbedding, "weight", "weight"}, {kPositions, "weight", "weight"}, {kHead, "weight", "weight"},
};

constexpr WeightTable kHfTables[] = {
    {.layers = Layers::kBert,
     .names_of = "Hugging Face's BERT",
     .paths = kBertPaths,
     .attention = kBertAttention,
     .rest = kDenseAndNorm,
     .limits = kOneWidth,
     .biases = Biases::kAll},
    {.layers = Layers::kLlama,
     .names_of = "Hugging Face's Llama",
     .paths = kLlamaPaths,
     .attention = kLlamaAttention,
     .limits = {true, true, false, false}},
    {.layers = Layers::kT5,
     .names_of = "Hugging Face's T5",
     .attention = kT5Attention,
     .limits = {false, true, false, false},
     .biases = Biases::kNone},
    {.layers = Layers::kVit,
     .names_of = "Hugging Face's ViT",
     .paths = kVitPaths,
     .attention = kVitAttention,
     .rest = kDenseAndNorm,
     .limits = kOneWidth,
     .biases = Biases::kAll},
    {.layers = Layers::kGpt2,
     .names_of = "Hugging Face's GPT-2",
     .paths = kGptPaths,
     .attention = kGpt2Attention,
     .rest = kGpt2Rows,
     .limits = kOneWidth,
     .biases = Biases::kAll,
     .second_names = kGptSecondNames},
    {.layers = Layers::kVit,
     .names_of = "ViT in transformers 5",
     .is_written = false,
     .paths = kVitStatePaths,
     .attention = kLlamaAttention,
     .rest = kDenseAndNorm},
    {.layers = Layers::kGpt2,
     .names_of = "GPT-2 without a head",
     .is_written = false,
     .paths = kGptInnerPaths,
     .attention = kGpt2Attention,
     .rest = kGpt2Rows},
};
constexpr WeightTable kNanoGptTables[] = {
    {.layers = Layers::kOwn,
     .names_of = "nanoGPT's layers",
     .paths = kGptPaths,
     .attention = kNanoGptAttention,
     .rest = kNanoGptRows,
     .limits = kOneWidth,
     .biases = Biases::kSwitch,
     .second_names = kGptSecondNames},
};

}  // namespace

std::span<const WeightTable> HuggingFaceTables() { return kHfTables; }
std::span<const WeightTable> NanoGptTables() { return kNanoGptTables; }

}  // namespace heed
