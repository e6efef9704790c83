// Weights come and go under the names and layouts of five frameworks; what does not fit is refused whole.
#include "heed/nn/weights.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "heed/error.h"
#include "heed/nn/encoders.h"
#include "heed/nn/multi_head_attention.h"
#include "heed/nn/transformer.h"

namespace heed::nn {
namespace {

constexpr Framework kFrameworks[] = {Framework::kTorch, Framework::kFlax, Framework::kKeras, Framework::kPaddle,
                                     Framework::kMxnet};

MultiHeadAttention SmallAttention(bool bias) {
  return MultiHeadAttention(MultiHeadAttentionOptions(8, 4).bias(bias).kv_heads(2).query_size(5).key_size(6).value_size(7));
}
TransformerEncoder SmallEncoder() { return TransformerEncoder(11, 8, 12, 2, 2, 0.0, /*use_bias=*/true); }

// Every kind of module that d2l has, each with fresh random weights.
std::vector<std::shared_ptr<torch::nn::Module>> Modules() {
  return {SmallAttention(false).ptr(), SmallAttention(true).ptr(), TransformerEncoderBlock(8, 12, 2, 0.0).ptr(),
          SmallEncoder().ptr()};
}

void Randomize(torch::nn::Module& module) {
  const at::NoGradGuard no_grad;
  for (const at::Tensor& parameter : module.parameters()) parameter.normal_();
}

TensorMap Snapshot(const torch::nn::Module& module) { return export_weights(module, Framework::kTorch); }

void ExpectSame(const TensorMap& a, const TensorMap& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) {
    ASSERT_EQ(b.count(name), 1u) << name;
    EXPECT_TRUE(at::equal(tensor, b.at(name))) << name;
  }
}

// What load_weights says; the module must be unchanged.
std::string Refusal(torch::nn::Module& module, const TensorMap& tensors, Framework framework) {
  const TensorMap before = Snapshot(module);
  std::string what;
  try {
    load_weights(module, tensors, framework);
    ADD_FAILURE() << "the tensors were accepted";
  } catch (const InvalidArgument& error) {
    what = error.what();
  }
  ExpectSame(before, Snapshot(module));
  return what;
}

bool Contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(WeightsTest, FrameworksAreKnownByName) {
  EXPECT_EQ(ParseFramework("torch"), Framework::kTorch);
  EXPECT_EQ(ParseFramework("flax"), Framework::kFlax);
  EXPECT_EQ(ParseFramework("keras"), Framework::kKeras);
  EXPECT_EQ(ParseFramework("paddle"), Framework::kPaddle);
  EXPECT_EQ(ParseFramework("mxnet"), Framework::kMxnet);
  EXPECT_EQ(ParseFramework("hf"), Framework::kHf);
  EXPECT_EQ(ParseFramework("nanogpt"), Framework::kNanoGpt);
  try {
    ParseFramework("caffe");
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(), "framework 'caffe': one of torch, flax, keras, paddle, mxnet, hf, nanogpt is expected");
  }
}

TEST(WeightsTest, FilesOfEveryFrameworkComeBack) {
  const std::string path = testing::TempDir() + "heed-weights-" + std::to_string(::getpid()) + ".safetensors";
  for (Framework framework : kFrameworks) {
    auto saved = Modules(), loaded = Modules();
    for (std::size_t i = 0; i < saved.size(); ++i) {
      Randomize(*saved[i]);
      save_weights(*saved[i], path, framework);
      load_weights(*loaded[i], path, framework);
      ExpectSame(Snapshot(*saved[i]), Snapshot(*loaded[i]));
    }
  }
  std::filesystem::remove(path);
}

TEST(WeightsTest, ExportsAreTheFrameworksNamesAndLayouts) {
  struct Expected {
    Framework framework;
    std::vector<std::pair<const char*, std::vector<int64_t>>> tensors;
  };
  const std::vector<Expected> table = {
      {Framework::kTorch,
       {{"embedding.weight", {11, 8}},
        {"blks.block1.attention.W_q.bias", {8}},
        {"blks.block1.addnorm2.ln.weight", {8}},
        {"blks.block0.ffn.dense1.weight", {12, 8}}}},
      {Framework::kFlax,
       {{"params/embedding/embedding", {11, 8}},
        {"params/blks_1/attention/W_q/bias", {8}},
        {"params/blks_1/addnorm2/LayerNorm_0/scale", {8}},
        {"params/blks_0/ffn/dense1/kernel", {8, 12}}}},
      {Framework::kKeras,
       {{"embedding/embeddings", {11, 8}},
        {"blks/1/attention/W_q/bias", {8}},
        {"blks/1/addnorm2/ln/gamma", {8}},
        {"blks/0/ffn/dense1/kernel", {8, 12}}}},
      {Framework::kPaddle,
       {{"embedding.weight", {11, 8}},
        {"blks.1.attention.W_q.bias", {8}},
        {"blks.1.addnorm2.ln.weight", {8}},
        {"blks.0.ffn.dense1.weight", {8, 12}}}},
      {Framework::kMxnet,
       {{"embedding.weight", {11, 8}},
        {"blks.1.attention.W_q.bias", {8}},
        {"blks.1.addnorm2.ln.gamma", {8}},
        {"blks.0.ffn.dense1.weight", {12, 8}}}},
  };
  TransformerEncoder encoder = SmallEncoder();
  for (const Expected& expected : table) {
    const TensorMap tensors = export_weights(*encoder, expected.framework);
    EXPECT_EQ(tensors.size(), 1u + 2u * 16u);
    for (const auto& [name, shape] : expected.tensors) {
      ASSERT_EQ(tensors.count(name), 1u) << name;
      EXPECT_EQ(tensors.at(name).sizes(), at::IntArrayRef(shape)) << name;
      EXPECT_TRUE(tensors.at(name).is_contiguous());
    }
  }
}

TEST(WeightsTest, ExportsAreCopies) {
  MultiHeadAttention attention(8, 2, 0.0);
  export_weights(*attention).at("W_q.weight").zero_();
  EXPECT_GT(attention->W_q->weight.abs().min().item<float>(), 0.0F);
}

TEST(WeightsTest, ParametersWithoutCounterpartAreRefused) {
  MultiHeadAttention attention(
      MultiHeadAttentionOptions(8, 2).position({.scheme = PositionScheme::kRelativeBias, .max_distance = 4}));
  EXPECT_EQ(export_weights(*attention, Framework::kTorch).count("position.relative_bias"), 1u);
  EXPECT_THROW(export_weights(*attention, Framework::kFlax), InvalidArgument);
}

TEST(WeightsTest, HeedsOwnEncodersComeBack) {
  for (const std::string& name : EncoderNames()) {
    EncoderOptions options(8);
    options.ffn_width(16).position({.scheme = PositionScheme::kLearned, .max_len = 5});
    const auto saved = MakeEncoder(name, options), loaded = MakeEncoder(name, options);
    load_weights(*loaded, export_weights(*saved));
    ExpectSame(Snapshot(*saved), Snapshot(*loaded));
  }
}

TEST(WeightsTest, ScopesAndSecondSpellingsAreUnderstood) {
  TransformerEncoder source = SmallEncoder();
  struct Spelling {
    Framework framework;
    std::vector<std::pair<std::string, std::string>> replacements;  // in every name, in this order
    std::string scope;
  };
  const std::vector<Spelling> spellings = {
      {Framework::kTorch, {}, "model.encoder."},
      {Framework::kTorch, {{"blks.block", "blks."}}, ""},
      {Framework::kFlax, {{"params/", ""}}, ""},
      {Framework::kFlax, {{"params/", "params/encoder/"}}, ""},
      {Framework::kFlax, {{"params/", ""}, {"LayerNorm_0", "ln"}, {"blks_", "blks/"}, {"/", "."}}, ""},  // flax.nnx
      {Framework::kKeras, {}, "seq2_seq/encoder/"},
      {Framework::kKeras,
       {{"blks/0", "blks/transformer_encoder_block"},
        {"blks/1", "blks/transformer_encoder_block_1"},
        {"kernel", "vars/0"},
        {"bias", "vars/1"},
        {"gamma", "vars/0"},
        {"beta", "vars/1"},
        {"embeddings", "vars/0"}},
       ""},
      {Framework::kPaddle, {}, "encoder."},
      {Framework::kMxnet, {}, "encoder."},
  };
  for (const Spelling& spelling : spellings) {
    TensorMap tensors;
    for (const auto& [exported, tensor] : export_weights(*source, spelling.framework)) {
      std::string name = exported;
      for (const auto& [from, to] : spelling.replacements) {
        for (std::size_t at = name.find(from); at != name.npos; at = name.find(from, at + to.size())) {
          name.replace(at, from.size(), to);
        }
      }
      tensors[spelling.scope + name] = tensor;
    }
    TransformerEncoder loaded = SmallEncoder();
    ASSERT_NO_THROW(load_weights(*loaded, tensors, spelling.framework)) << tensors.begin()->first;
    ExpectSame(Snapshot(*source), Snapshot(*loaded));
  }
}

// Layers in the order in which d2l creates them, the numbers going on from other layers of the program.
TEST(WeightsTest, LayersNumberedThroughTheProgramAreFoundByTheirOrder) {
  const char* const dense[] = {"attention.W_q", "attention.W_k", "attention.W_v", "attention.W_o", "ffn.dense1", "ffn.dense2"};
  const char* const norms[] = {"addnorm1.ln", "addnorm2.ln"};
  TransformerEncoder source = SmallEncoder();
  const TensorMap ours = Snapshot(*source);
  TensorMap gluon{{"embedding3_weight", ours.at("embedding.weight")}};
  TensorMap keras{{"transformer_encoder/embedding/embeddings", ours.at("embedding.weight")}};
  for (int block = 0; block < 2; ++block) {
    const std::string prefix = "blks.block" + std::to_string(block) + ".";
    const std::string scope = "transformer_encoder/transformer_encoder_block_" + std::to_string(block + 3) + "/";
    for (int i = 0; i < 6; ++i) {
      const int number = 8 + 6 * block + i;  // passes from one digit to two
      const at::Tensor& weight = ours.at(prefix + dense[i] + ".weight");
      const at::Tensor& bias = ours.at(prefix + dense[i] + ".bias");
      gluon["dense" + std::to_string(number) + "_weight"] = weight;
      gluon["dense" + std::to_string(number) + "_bias"] = bias;
      const std::string layer = scope + "some_layer/dense" + (number == 8 ? "" : "_" + std::to_string(number)) + "/";
      keras[layer + "kernel:0"] = weight.t();
      keras[layer + "bias:0"] = bias;
    }
    for (int i = 0; i < 2; ++i) {
      const int number = 9 + 2 * block + i;
      gluon["layernorm" + std::to_string(number) + "_gamma"] = ours.at(prefix + norms[i] + ".weight");
      gluon["layernorm" + std::to_string(number) + "_beta"] = ours.at(prefix + norms[i] + ".bias");
      const std::string layer = scope + "add_norm/layer_normalization_" + std::to_string(number) + "/";
      keras[layer + "gamma"] = ours.at(prefix + norms[i] + ".weight");
      keras[layer + "beta"] = ours.at(prefix + norms[i] + ".bias");
    }
  }
  for (const auto& [tensors, framework] : {std::pair(gluon, Framework::kMxnet), std::pair(keras, Framework::kKeras)}) {
    TransformerEncoder loaded = SmallEncoder();
    load_weights(*loaded, tensors, framework);
    ExpectSame(ours, Snapshot(*loaded));
  }
}

TEST(WeightsTest, NumbersAreConvertedToTheModulesType) {
  MultiHeadAttention source(8, 2, 0.0), loaded(8, 2, 0.0);
  TensorMap tensors = export_weights(*source);
  for (auto& [name, tensor] : tensors) tensor = tensor.to(at::kDouble);
  load_weights(*loaded, tensors);
  EXPECT_EQ(loaded->W_q->weight.scalar_type(), at::kFloat);
  ExpectSame(Snapshot(*source), Snapshot(*loaded));
}

TEST(WeightsTest, WhatDoesNotFitIsNamedAndNothingChanges) {
  MultiHeadAttention attention = SmallAttention(true);
  const TensorMap good = export_weights(*SmallAttention(true), Framework::kFlax);

  TensorMap renamed = good;
  renamed["params/W_x/kernel"] = renamed.extract("params/W_o/kernel").mapped();
  std::string what = Refusal(*attention, renamed, Framework::kFlax);
  EXPECT_TRUE(Contains(what, "parameter 'W_o.weight' [8, 8] has no source")) << what;
  EXPECT_TRUE(Contains(what, "source 'params/W_x/kernel' [8, 8] has no parameter")) << what;

  TensorMap reshaped = good;
  reshaped["params/W_q/kernel"] = at::zeros({4, 8});
  what = Refusal(*attention, reshaped, Framework::kFlax);
  EXPECT_TRUE(Contains(what,
                       "source 'params/W_q/kernel' [4, 8], in heed's layout [8, 4], does not fit parameter "
                       "'W_q.weight' [8, 5]"))
      << what;

  TensorMap flat = good;
  flat["params/W_q/kernel"] = at::zeros({40});
  what = Refusal(*attention, flat, Framework::kFlax);
  EXPECT_TRUE(Contains(what, "source 'params/W_q/kernel' [40] does not fit parameter 'W_q.weight' [8, 5]")) << what;

  TensorMap counted = good;
  counted["params/W_q/bias"] = at::zeros({8}, at::kLong);
  what = Refusal(*attention, counted, Framework::kFlax);
  EXPECT_TRUE(Contains(what, "source 'params/W_q/bias' [8] holds no floating-point numbers for parameter 'W_q.bias'")) << what;

  TensorMap doubled = good;
  doubled["params/query/bias"] = at::zeros({4, 2});
  what = Refusal(*attention, doubled, Framework::kFlax);
  EXPECT_TRUE(Contains(what, "parameter 'W_q.bias' has two sources, 'params/W_q/bias' and 'params/query/bias'")) << what;

  TensorMap more = good;
  more["params/dropout/rate"] = at::zeros({});
  EXPECT_TRUE(Contains(Refusal(*attention, more, Framework::kFlax), "source 'params/dropout/rate' [] has no parameter"));

  what = Refusal(*SmallAttention(false), good, Framework::kFlax);  // a bias too many
  EXPECT_TRUE(Contains(what, "source 'params/W_q/bias' [8] has no parameter")) << what;
  what = Refusal(*attention, export_weights(*SmallAttention(false), Framework::kFlax), Framework::kFlax);
  EXPECT_TRUE(Contains(what, "parameter 'W_q.bias' [8] has no source")) << what;
  what = Refusal(*attention, {}, Framework::kFlax);
  EXPECT_TRUE(Contains(what, "and 2 more")) << what;
  what = Refusal(*attention, {{"W_q.weight", at::Tensor()}}, Framework::kTorch);
  EXPECT_TRUE(Contains(what, "'W_q.weight' (undefined)")) << what;
}

TEST(WeightsTest, FilesThatDoNotFitAreNamed) {
  const std::string path = testing::TempDir() + "heed-weights-unfit-" + std::to_string(::getpid()) + ".safetensors";
  MultiHeadAttention attention(8, 2, 0.0);
  save_weights(*MultiHeadAttention(8, 2, 0.0, /*bias=*/true), path);
  try {
    load_weights(*attention, path);
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_TRUE(Contains(error.what(), path)) << error.what();
  }
  std::ofstream(path) << "not a checkpoint";
  EXPECT_THROW(load_weights(*attention, path), FileError);
  std::filesystem::remove(path);
}

// The frameworks' own attention layers keep heads as a dimension or stack their projections; the projections of the same
// input tell whether they arrived.
TEST(WeightsTest, OwnLayersWithHeadsAsADimension) {
  for (Framework framework : {Framework::kFlax, Framework::kKeras}) {
    const std::string output = framework == Framework::kFlax ? "out" : "attention_output";
    const std::string scope = framework == Framework::kFlax ? "params/" : "multi_head_attention_2/";
    const TensorMap tensors = {{scope + "query/kernel", at::randn({5, 4, 2})},     {scope + "query/bias", at::randn({4, 2})},
                               {scope + "key/kernel", at::randn({6, 2, 2})},       {scope + "key/bias", at::randn({2, 2})},
                               {scope + "value/kernel", at::randn({7, 2, 2})},     {scope + "value/bias", at::randn({2, 2})},
                               {scope + output + "/kernel", at::randn({4, 2, 8})}, {scope + output + "/bias", at::randn({8})}};
    MultiHeadAttention attention = SmallAttention(true);
    load_weights(*attention, tensors, framework);

    const at::Tensor X = at::randn({3, 6}), heads = at::randn({3, 4, 2});
    const at::Tensor keys = at::einsum("ni,ihd->nhd", {X, tensors.at(scope + "key/kernel")}) + tensors.at(scope + "key/bias");
    EXPECT_TRUE(at::allclose(attention->W_k(X), keys.flatten(1), 1e-5, 1e-5));
    const at::Tensor merged =
        at::einsum("nhd,hdo->no", {heads, tensors.at(scope + output + "/kernel")}) + tensors.at(scope + output + "/bias");
    EXPECT_TRUE(at::allclose(attention->W_o(heads.flatten(1)), merged, 1e-5, 1e-5));

    TensorMap other_heads = tensors;  // as many numbers, cut into other heads
    other_heads[scope + "query/kernel"] = at::randn({5, 2, 4});
    EXPECT_TRUE(Contains(Refusal(*attention, other_heads, framework), "has 2 heads, parameter 'W_q.weight' [8, 5] has 4"));
  }
}

TEST(WeightsTest, OwnLayersOfTorchAndPaddle) {
  MultiHeadAttention attention(8, 2, 0.0, /*bias=*/true);
  const at::Tensor in_weight = at::randn({24, 8}), in_bias = at::randn({24}), out = at::randn({8, 8}),
                   out_bias = at::randn({8});
  load_weights(*attention,
               {{"self_attn.in_proj_weight", in_weight},
                {"self_attn.in_proj_bias", in_bias},
                {"self_attn.out_proj.weight", out},
                {"self_attn.out_proj.bias", out_bias}},
               Framework::kTorch);
  EXPECT_TRUE(at::equal(attention->W_q->weight, in_weight.slice(0, 0, 8)));
  EXPECT_TRUE(at::equal(attention->W_k->weight, in_weight.slice(0, 8, 16)));
  EXPECT_TRUE(at::equal(attention->W_v->bias, in_bias.slice(0, 16, 24)));
  EXPECT_TRUE(at::equal(attention->W_o->weight, out));

  TensorMap paddle;
  for (const char* name : {"q_proj", "k_proj", "v_proj", "out_proj"}) {
    paddle[std::string(name) + ".weight"] = at::randn({8, 8});
    paddle[std::string(name) + ".bias"] = at::randn({8});
  }
  load_weights(*attention, paddle, Framework::kPaddle);
  EXPECT_TRUE(at::equal(attention->W_v->weight, paddle.at("v_proj.weight").t()));
  EXPECT_TRUE(at::equal(attention->W_o->bias, paddle.at("out_proj.bias")));
}

}  // namespace
}  // namespace heed::nn
