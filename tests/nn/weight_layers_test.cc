// Every module under the names of every layer that can hold it: what is written comes back bit by bit, and what is read goes
// out as it came.
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/embedding.h>

#include "heed/error.h"
#include "heed/nn/encoders.h"
#include "heed/nn/multi_head_attention.h"
#include "heed/nn/transformer.h"
#include "heed/nn/transformer_decoder.h"
#include "heed/nn/weights.h"

namespace heed::nn {
namespace {

using Module = std::shared_ptr<torch::nn::Module>;

constexpr int64_t kWidth = 8, kFfnWidth = 12, kHeads = 4, kVocabulary = 11;

TransformerEncoderBlockOptions Block(bool bias) { return TransformerEncoderBlockOptions(kWidth, kFfnWidth, kHeads).bias(bias); }

EncoderOptions Stack(bool bias) {
  return EncoderOptions(kWidth).layers(2).heads(kHeads).ffn_width(kFfnWidth).bias(bias).causal(true);
}

// As nanoGPT and GPT-2 are built. Tied: the head is the embedding.
struct LanguageModel : torch::nn::Module {
  explicit LanguageModel(bool tied, bool bias = true) {
    embedding = register_module("embedding", torch::nn::Embedding(kVocabulary, kWidth));
    encoder =
        register_module("encoder", AttentionEncoder(Stack(bias).position({.scheme = PositionScheme::kLearned, .max_len = 5})));
    if (!tied) head = register_module("head", torch::nn::Linear(torch::nn::LinearOptions(kWidth, kVocabulary).bias(false)));
  }
  torch::nn::Embedding embedding{nullptr};
  AttentionEncoder encoder{nullptr};
  torch::nn::Linear head{nullptr};
};

MultiHeadAttentionOptions AttentionWith(bool bias = false) { return MultiHeadAttentionOptions(kWidth, kHeads).bias(bias); }

const std::map<std::string, std::function<Module()>>& Makers() {
  const auto attention = [](const MultiHeadAttentionOptions& options) {
    return [options] { return MultiHeadAttention(options).ptr(); };
  };
  static const std::map<std::string, std::function<Module()>> makers = {
      {"attention", attention(AttentionWith())},
      {"attention with bias", attention(AttentionWith(true))},
      {"grouped attention", attention(AttentionWith().kv_heads(2))},
      {"attention of several widths", attention(AttentionWith(true).query_size(8).key_size(6).value_size(7))},
      {"narrow attention", attention(MultiHeadAttentionOptions(6, kHeads).head_dim(kWidth / kHeads))},
      {"attention of T5", attention(AttentionWith().position({.scheme = PositionScheme::kT5}))},
      {"block", [] { return TransformerEncoderBlock(Block(false)).ptr(); }},
      {"block with bias", [] { return TransformerEncoderBlock(Block(true)).ptr(); }},
      {"decoder block",
       [] {
         return TransformerDecoderBlock(TransformerDecoderBlockOptions(kWidth, kFfnWidth, kHeads).encoder_size(6).bias(true))
             .ptr();
       }},
      {"encoder", [] { return TransformerEncoder(kVocabulary, 2, Block(true)).ptr(); }},
      {"pre-norm encoder", [] { return TransformerEncoder(kVocabulary, 2, Block(true).norm(Norm::kPre)).ptr(); }},
      {"decoder", [] { return TransformerDecoder(kVocabulary, kWidth, kFfnWidth, kHeads, 2, 0.0, true).ptr(); }},
      {"stack", [] { return AttentionEncoder(Stack(true)).ptr(); }},
      {"post-norm stack", [] { return AttentionEncoder(Stack(true).norm(Norm::kPost)).ptr(); }},
      {"language model", [] { return std::make_shared<LanguageModel>(false); }},
      {"tied language model", [] { return std::make_shared<LanguageModel>(true); }},
  };
  return makers;
}

Module Random(const std::string& name) {
  const Module module = Makers().at(name)();
  const at::NoGradGuard no_grad;
  for (const at::Tensor& parameter : module->parameters()) parameter.normal_();
  return module;
}

void ExpectEqualMaps(const TensorMap& actual, const TensorMap& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    ASSERT_EQ(actual.count(name), 1u) << name;
    EXPECT_TRUE(at::equal(actual.at(name), tensor)) << name;
    EXPECT_TRUE(actual.at(name).is_contiguous()) << name;
  }
}

std::string WhatIsThrown(const std::function<void()>& call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return "";
}

void ExpectContains(const std::string& text, const std::string& part) { EXPECT_NE(text.find(part), text.npos) << text; }

struct Written {
  Framework framework;
  Layers layers;
  std::set<std::string> modules;
};

const std::set<std::string> kAttentions = {"attention", "attention with bias", "attention of several widths",
                                           "grouped attention", "narrow attention"};
const std::set<std::string> kBooks = {"block", "block with bias", "post-norm stack", "encoder", "decoder", "decoder block"};

std::set<std::string> Together(std::set<std::string> a, const std::set<std::string>& b) {
  a.insert(b.begin(), b.end());
  return a;
}

// What each kind of layer has a place for.
const std::vector<Written>& Table() {
  static const std::set<std::string> all = [] {
    std::set<std::string> names;
    for (const auto& [name, make] : Makers()) names.insert(name);
    return names;
  }();
  static const std::set<std::string> torch = {"attention",
                                              "attention with bias",
                                              "attention of several widths",
                                              "attention of T5",
                                              "block with bias",
                                              "decoder block",
                                              "encoder",
                                              "pre-norm encoder",
                                              "decoder",
                                              "stack",
                                              "post-norm stack",
                                              "language model",
                                              "tied language model"};
  static const std::set<std::string> gpt = {"attention with bias", "block with bias", "stack",
                                            "post-norm stack",     "language model",  "tied language model"};
  static const std::vector<Written> table = {
      {Framework::kTorch, Layers::kD2l, all},
      {Framework::kTorch, Layers::kOwn, torch},
      {Framework::kFlax, Layers::kD2l, Together(kAttentions, kBooks)},
      {Framework::kFlax, Layers::kOwn, Together(kAttentions, kBooks)},
      {Framework::kFlax, Layers::kNnx, Together(kAttentions, kBooks)},
      {Framework::kKeras, Layers::kD2l, Together(kAttentions, kBooks)},
      {Framework::kKeras, Layers::kOwn, Together(kAttentions, kBooks)},
      {Framework::kPaddle, Layers::kD2l, Together(kAttentions, kBooks)},
      {Framework::kPaddle,
       Layers::kOwn,
       {"attention", "attention with bias", "attention of several widths", "block", "block with bias", "decoder block",
        "encoder", "pre-norm encoder", "decoder", "stack", "post-norm stack"}},
      {Framework::kMxnet, Layers::kD2l, Together(kAttentions, kBooks)},
      {Framework::kMxnet,
       Layers::kOwn,
       {"attention", "attention with bias", "block", "block with bias", "encoder", "post-norm stack"}},
      {Framework::kHf, Layers::kBert, {"attention with bias", "block with bias", "post-norm stack"}},
      {Framework::kHf, Layers::kVit, {"attention with bias", "block with bias", "stack", "post-norm stack"}},
      {Framework::kHf, Layers::kGpt2, gpt},
      {Framework::kHf, Layers::kLlama, {"attention", "attention with bias", "grouped attention", "narrow attention"}},
      {Framework::kHf, Layers::kT5, {"attention", "narrow attention", "attention of T5"}},
      {Framework::kNanoGpt, Layers::kOwn, Together(gpt, {"attention"})},
  };
  return table;
}

TEST(WeightLayersTest, EveryModuleComesBackFromEveryLayersNames) {
  for (const Written& row : Table()) {
    for (const auto& [name, make] : Makers()) {
      SCOPED_TRACE(name + " for " + NameOf(row.framework) + ", layers " + std::to_string(static_cast<int>(row.layers)));
      const Module module = Random(name), other = make();
      if (!row.modules.contains(name)) {
        EXPECT_THROW(export_weights(*module, row.framework, row.layers), InvalidArgument);
        continue;
      }
      const TensorMap written = export_weights(*module, row.framework, row.layers);
      load_weights(*other, written, row.framework);
      ExpectEqualMaps(export_weights(*other), export_weights(*module));
      ExpectEqualMaps(export_weights(*other, row.framework, row.layers), written);
    }
  }
}

TEST(WeightLayersTest, APrefixTakesAPartAndStandsBeforeWhatIsWritten) {
  for (const Written& row : Table()) {
    for (const std::string& name : row.modules) {
      SCOPED_TRACE(name + " for " + NameOf(row.framework));
      const Module module = Random(name), other = Makers().at(name)();
      TensorMap checkpoint = export_weights(*module, row.framework, row.layers, "model.layer.3");
      for (const auto& [tensor, value] : export_weights(*Random(name), row.framework, row.layers, "model.layer.30")) {
        EXPECT_TRUE(checkpoint.emplace(tensor, value).second) << tensor;
      }
      load_weights(*other, checkpoint, row.framework, "model.layer.3");
      ExpectEqualMaps(export_weights(*other), export_weights(*module));
    }
  }
  const Module attention = Random("attention");
  const TensorMap checkpoint = export_weights(*attention, Framework::kHf, Layers::kLlama, "model.layers.0.self_attn");
  ExpectContains(WhatIsThrown([&] { load_weights(*attention, checkpoint, Framework::kHf, "model.layers.1"); }),
                 "prefix 'model.layers.1': expected what the names of some sources begin with, up to a dot; the first is "
                 "'model.layers.0.self_attn.k_proj.weight'");
  ExpectContains(WhatIsThrown([&] { load_weights(*attention, TensorMap(), Framework::kHf, "x"); }), "there are none");
}

TEST(WeightLayersTest, NamesAndShapesAreTheLayersOwn) {
  using Shapes = std::map<std::string, std::vector<int64_t>>;
  const auto expect = [](const std::string& module, Framework framework, Layers layers, const Shapes& expected) {
    const TensorMap written = export_weights(*Makers().at(module)(), framework, layers);
    for (const auto& [name, shape] : expected) {
      ASSERT_EQ(written.count(name), 1u) << name;
      EXPECT_EQ(written.at(name).sizes(), at::IntArrayRef(shape)) << name;
    }
  };
  expect("attention with bias", Framework::kTorch, Layers::kOwn,
         {{"in_proj_weight", {24, 8}}, {"in_proj_bias", {24}}, {"out_proj.weight", {8, 8}}, {"out_proj.bias", {8}}});
  expect("attention of several widths", Framework::kTorch, Layers::kOwn,
         {{"q_proj_weight", {8, 8}}, {"k_proj_weight", {8, 6}}, {"v_proj_weight", {8, 7}}, {"in_proj_bias", {24}}});
  expect("pre-norm encoder", Framework::kTorch, Layers::kOwn,
         {{"layers.1.self_attn.in_proj_weight", {24, 8}},
          {"layers.1.linear1.weight", {12, 8}},
          {"layers.0.norm2.bias", {8}},
          {"norm.weight", {8}},
          {"embedding.weight", {11, 8}}});
  expect("decoder", Framework::kTorch, Layers::kOwn,
         {{"layers.1.multihead_attn.in_proj_weight", {24, 8}}, {"layers.1.norm3.weight", {8}}, {"dense.weight", {11, 8}}});
  expect("grouped attention", Framework::kFlax, Layers::kOwn,
         {{"params/query/kernel", {8, 4, 2}}, {"params/key/kernel", {8, 2, 2}}, {"params/out/kernel", {4, 2, 8}}});
  expect("narrow attention", Framework::kKeras, Layers::kOwn,
         {{"query/kernel", {6, 4, 2}}, {"attention_output/kernel", {4, 2, 6}}});
  expect("decoder block", Framework::kPaddle, Layers::kOwn,
         {{"cross_attn.k_proj.weight", {6, 8}}, {"linear1.weight", {8, 12}}, {"norm3.bias", {8}}});
  expect("post-norm stack", Framework::kMxnet, Layers::kOwn,
         {{"transformer_cells.1.attention_cell.proj_query.weight", {8, 8}},
          {"transformer_cells.0.proj.bias", {8}},
          {"transformer_cells.0.layer_norm.gamma", {8}},
          {"transformer_cells.0.ffn.ffn_1.weight", {12, 8}},
          {"transformer_cells.0.ffn.layer_norm.beta", {8}}});
  expect("post-norm stack", Framework::kHf, Layers::kBert,
         {{"layer.1.attention.self.query.weight", {8, 8}},
          {"layer.1.attention.output.dense.bias", {8}},
          {"layer.0.attention.output.LayerNorm.weight", {8}},
          {"layer.0.intermediate.dense.weight", {12, 8}},
          {"layer.0.output.dense.weight", {8, 12}},
          {"layer.0.output.LayerNorm.bias", {8}}});
  expect("stack", Framework::kHf, Layers::kVit,
         {{"encoder.layer.1.attention.attention.query.weight", {8, 8}},
          {"encoder.layer.0.layernorm_before.weight", {8}},
          {"encoder.layer.0.layernorm_after.bias", {8}},
          {"layernorm.weight", {8}}});
  expect("tied language model", Framework::kHf, Layers::kGpt2,
         {{"transformer.wte.weight", {11, 8}},
          {"transformer.wpe.weight", {5, 8}},
          {"lm_head.weight", {11, 8}},
          {"transformer.h.1.attn.c_attn.weight", {8, 24}},
          {"transformer.h.1.attn.c_attn.bias", {24}},
          {"transformer.h.0.mlp.c_fc.weight", {8, 12}},
          {"transformer.h.0.ln_2.bias", {8}},
          {"transformer.ln_f.weight", {8}}});
  expect("language model", Framework::kNanoGpt, Layers::kUsual,
         {{"transformer.wte.weight", {11, 8}},
          {"lm_head.weight", {11, 8}},
          {"transformer.h.1.attn.c_attn.weight", {24, 8}},
          {"transformer.h.0.mlp.c_proj.weight", {8, 12}},
          {"transformer.ln_f.bias", {8}}});
  expect("attention of T5", Framework::kHf, Layers::kUsual,
         {{"q.weight", {8, 8}}, {"relative_attention_bias.weight", {32, 4}}});
  expect("grouped attention", Framework::kHf, Layers::kUsual, {{"k_proj.weight", {4, 8}}, {"o_proj.weight", {8, 8}}});
}

TEST(WeightLayersTest, WhatALayerCannotHoldIsNamed) {
  const auto refusal = [](const std::string& module, Framework framework, Layers layers) {
    return WhatIsThrown([&] { export_weights(*Makers().at(module)(), framework, layers); });
  };
  ExpectContains(refusal("grouped attention", Framework::kTorch, Layers::kOwn),
                 "the attention layer has heads that share keys (4 beside 2 of keys): no place for that in torch.nn's layers");
  ExpectContains(refusal("narrow attention", Framework::kTorch, Layers::kOwn), "heads of another width than its output");
  ExpectContains(refusal("attention of several widths", Framework::kHf, Layers::kLlama), "keys and values of another width");
  ExpectContains(refusal("block", Framework::kHf, Layers::kBert), "attention layer 'attention' has projections without a bias");
  ExpectContains(refusal("attention with bias", Framework::kHf, Layers::kT5), "projections with a bias");
  ExpectContains(refusal("decoder block", Framework::kNanoGpt, Layers::kUsual),
                 "parameter 'attention1.W_q.weight' [8, 8] has no counterpart in nanoGPT's layers");
  ExpectContains(refusal("block with bias", Framework::kHf, Layers::kLlama),
                 "parameter 'ffn.dense1.weight' [12, 8] has no counterpart in Hugging Face's Llama");
  ExpectContains(refusal("attention", Framework::kTorch, Layers::kBert), "layers 'bert': torch has d2l, own");
  ExpectContains(refusal("attention", Framework::kNanoGpt, Layers::kD2l), "layers 'd2l': nanogpt has own");
  ExpectContains(WhatIsThrown([] { ParseLayers("gpt"); }),
                 "layers 'gpt': one of d2l, own, nnx, bert, vit, gpt2, llama, t5 is expected");
}

// A block with a bias everywhere or nowhere: heed's own has them around its attention always.
TEST(WeightLayersTest, BlocksWithoutAnyBias) {
  for (const Framework framework : {Framework::kTorch, Framework::kNanoGpt}) {
    TransformerEncoderBlock block(Block(false)), other(Block(false));
    ExpectContains(WhatIsThrown([&] { export_weights(*block, framework, Layers::kOwn); }), "is not zero, and ");
    {
      const at::NoGradGuard no_grad;
      for (const auto& item : block->named_parameters()) {
        if (item.key().ends_with("bias")) item.value().zero_();
      }
    }
    TensorMap written = export_weights(*block, framework, Layers::kOwn);
    EXPECT_EQ(written.size(), 6u);
    load_weights(*other, written, framework);
    ExpectEqualMaps(export_weights(*other), export_weights(*block));
    ExpectEqualMaps(export_weights(*other, framework, Layers::kOwn), written);

    TransformerEncoderBlock with_bias(Block(true));
    ExpectContains(WhatIsThrown([&] { load_weights(*with_bias, written, framework); }),
                   "'attention.W_q.bias' [8] has no source");
    const std::string bias = framework == Framework::kTorch ? "norm2.bias" : "ln_2.bias";
    written[bias] = at::zeros({kWidth});  // one, where all or none are expected
    ExpectContains(WhatIsThrown([&] { load_weights(*other, written, framework); }), "'ffn.dense1.bias' [12] has no source");
  }
  // d2l's block has these biases always.
  TensorMap d2l = export_weights(*Makers().at("block")());
  d2l.erase("ffn.dense1.bias");
  const Module block = Makers().at("block")();
  ExpectContains(WhatIsThrown([&] { load_weights(*block, d2l); }), "parameter 'ffn.dense1.bias' [12] has no source");
  // A whole nanoGPT without biases.
  const auto model = std::make_shared<LanguageModel>(true, /*bias=*/false),
             other = std::make_shared<LanguageModel>(true, false);
  {
    const at::NoGradGuard no_grad;
    for (const auto& item : model->named_parameters())
      item.key().ends_with("bias") ? item.value().zero_() : item.value().normal_();
  }
  const TensorMap written = export_weights(*model, Framework::kNanoGpt);
  EXPECT_EQ(written.count("transformer.ln_f.bias"), 0u);
  load_weights(*other, written, Framework::kNanoGpt);
  ExpectEqualMaps(export_weights(*other), export_weights(*model));
}

TEST(WeightLayersTest, ATiedHeadNeedsOneOfItsNamesAndRefusesTwoNumbers) {
  for (const auto& [framework, layers] : {std::pair(Framework::kNanoGpt, Layers::kOwn), {Framework::kHf, Layers::kGpt2}}) {
    const Module module = Random("tied language model");
    const TensorMap whole = export_weights(*module, framework, layers);
    EXPECT_TRUE(at::equal(whole.at("lm_head.weight"), whole.at("transformer.wte.weight")));
    for (const char* left_out : {"lm_head.weight", "transformer.wte.weight"}) {
      TensorMap one = whole;
      one.erase(left_out);
      const Module other = Makers().at("tied language model")();
      load_weights(*other, one, framework);
      ExpectEqualMaps(export_weights(*other), export_weights(*module));
    }
    TensorMap torn = whole;
    torn["lm_head.weight"] = torn.at("lm_head.weight") + 1;
    const TensorMap before = export_weights(*module);
    ExpectContains(WhatIsThrown([&] { load_weights(*module, torn, framework); }),
                   "parameter 'embedding.weight' has two sources that differ, 'lm_head.weight' and 'transformer.wte.weight'");
    ExpectEqualMaps(export_weights(*module), before);
    // A head of its own is not the embedding.
    TensorMap untied = whole;
    untied.erase("lm_head.weight");
    const Module with_head = Makers().at("language model")();
    ExpectContains(WhatIsThrown([&] { load_weights(*with_head, untied, framework); }), "'head.weight' [11, 8] has no source");
  }
}

TEST(WeightLayersTest, SecondSpellingsAndConstantsOfModels) {
  const Module model = Random("tied language model"), other = Makers().at("tied language model")();
  TensorMap inner;  // of a GPT2Model, with the masks that old files hold
  for (const auto& [name, tensor] : export_weights(*model, Framework::kHf, Layers::kGpt2)) {
    if (name != "lm_head.weight") inner[name.substr(std::string("transformer.").size())] = tensor;
  }
  for (const std::string layer : {"h.0.", "h.1."}) {
    inner[layer + "attn.bias"] = at::ones({1, 1, 5, 5});
    inner[layer + "attn.masked_bias"] = at::scalar_tensor(-1e4);
  }
  load_weights(*other, inner, Framework::kHf);
  ExpectEqualMaps(export_weights(*other), export_weights(*model));
  inner["h.0.attn.bias"] = at::ones({24});
  ExpectContains(WhatIsThrown([&] { load_weights(*other, inner, Framework::kHf); }), "'h.0.attn.bias' [24] has no parameter");

  const Module attention = Random("attention"), copy = Makers().at("attention")();
  TensorMap llama = export_weights(*attention, Framework::kHf, Layers::kLlama, "layers.0.self_attn");
  llama["layers.0.self_attn.rotary_emb.inv_freq"] = at::ones({1});
  load_weights(*copy, llama, Framework::kHf);
  ExpectEqualMaps(export_weights(*copy), export_weights(*attention));

  const std::pair<std::string, std::string> of_state[] = {{"encoder.layer.", "layers."},
                                                          {"attention.attention.query", "attention.q_proj"},
                                                          {"attention.attention.key", "attention.k_proj"},
                                                          {"attention.attention.value", "attention.v_proj"},
                                                          {"attention.output.dense", "attention.o_proj"},
                                                          {"intermediate.dense", "mlp.fc1"},
                                                          {"output.dense", "mlp.fc2"}};
  const Module stack = Random("stack"), filled = Makers().at("stack")();
  TensorMap state;  // of transformers 5
  for (const auto& [written, tensor] : export_weights(*stack, Framework::kHf, Layers::kVit)) {
    std::string name = written;
    for (const auto& [from, to] : of_state) {
      if (const std::size_t at = name.find(from); at != name.npos) name.replace(at, from.size(), to);
    }
    state[name] = tensor;
  }
  load_weights(*filled, state, Framework::kHf);
  ExpectEqualMaps(export_weights(*filled), export_weights(*stack));
}

TEST(WeightLayersTest, LayersOfGluonNlp1) {
  const Module block = Random("block with bias"), other = Makers().at("block with bias")();
  TensorMap layer = export_weights(*block, Framework::kMxnet, Layers::kOwn);
  for (const std::string parameter : {".weight", ".bias"}) {
    std::vector<at::Tensor> stacked;
    for (const std::string projection : {"query", "key", "value"}) {
      stacked.push_back(layer.extract("attention_cell.proj_" + projection + parameter).mapped());
    }
    layer["attn_qkv" + parameter] = at::cat(stacked);
    layer["attention_proj" + parameter] = layer.extract("proj" + parameter).mapped();
  }
  load_weights(*other, layer, Framework::kMxnet);
  ExpectEqualMaps(export_weights(*other), export_weights(*block));
}

// Names as a damaged or hostile file has them: all or nothing.
TEST(WeightLayersTest, ChangedNamesChangeNothing) {
  std::mt19937 random(1);
  const auto any = [&](std::size_t count) { return static_cast<std::size_t>(random() % count); };
  const auto changed = [&](std::string name) {
    const std::string pieces[] = {
        ".", "/", "#", "0", "_", "blks.block", "weight", ".0.", "!", "params/", std::string(1000, 'x')};
    for (std::size_t edits = 1 + any(2); edits > 0; --edits) {
      const std::size_t at = any(name.size());
      switch (any(4)) {
        case 0:
          name.erase(at, 1 + any(3));
          break;
        case 1:
          name.insert(at, pieces[any(std::size(pieces))]);
          break;
        case 2:
          name = name.substr(at) + "." + name.substr(0, at);
          break;
        default:
          name[at] = static_cast<char>(random());
      }
      if (name.empty()) name = "x";
    }
    return name;
  };
  for (const Written& row : Table()) {
    for (const std::string& name : row.modules) {
      const Module module = Random(name);
      const TensorMap written = export_weights(*module, row.framework, row.layers), before = export_weights(*module);
      for (int round = 0; round < 20; ++round) {
        TensorMap hostile = written;
        auto node = hostile.extract(std::next(hostile.begin(), static_cast<std::ptrdiff_t>(any(hostile.size()))));
        const std::string original = node.key();
        node.key() = changed(original);
        node.mapped() = node.mapped() + 1;
        const bool is_second_name = original == "lm_head.weight" || original == "transformer.wte.weight";
        if (node.key() == original || is_second_name || !hostile.insert(std::move(node)).inserted) continue;
        try {
          load_weights(*module, hostile, row.framework);
        } catch (const InvalidArgument&) {
          ExpectEqualMaps(export_weights(*module), before);
          continue;
        }
        load_weights(*module, written, row.framework);  // another spelling of the same name
      }
    }
  }
}

}  // namespace
}  // namespace heed::nn
