// Layers on plain memory with the weights of five frameworks: d2l's layers and the layers that come with each framework give
// what the framework gave, and so does T5's attention.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "encoder_bits.h"
#include "golden_case.h"
#include "heed/attention.h"
#include "heed/multi_head_attention.h"
#include "heed/positional_encoding.h"
#include "heed/transformer.h"

namespace heed {
namespace {

// Of the largest output: what two implementations in float32 may differ by.
constexpr double kTolerance = 1e-6;

std::string CaseName(const testing::TestParamInfo<std::string>& info) { return info.param; }

// An input of a case as float, with its view.
struct Input {
  Input(const GoldenCase& golden, const std::string& name)
      : shape(golden.At("input." + name).shape), numbers(golden.At("input." + name).floats()) {}
  View<const float, 3> view() const {
    return View<const float, 3>::Contiguous(numbers.data(), {shape.at(0), shape.at(1), shape.at(2)});
  }
  std::vector<int64_t> shape;
  std::vector<float> numbers;
};

struct ValidLens {
  explicit ValidLens(const GoldenCase& golden) {
    if (!golden.Has("mask.valid_lens")) return;
    const GoldenTensor& tensor = golden.At("mask.valid_lens");
    numbers.assign(tensor.numbers.begin(), tensor.numbers.end());
    lengths = tensor.shape.size() == 1 ? Lengths::PerBatch(numbers.data(), tensor.shape[0])
                                       : Lengths::PerQuery(numbers.data(), tensor.shape[0], tensor.shape[1]);
  }
  std::vector<int64_t> numbers;
  Lengths lengths;
};

// d2l 1.0.3 and 0.17.6 set masked scores to -1e6: a query without keys sees all of them alike.
EmptyRow EmptyRowOf(const GoldenCase& golden) {
  return golden.options.at("mask_policy").get<std::string>().starts_with("d2l_1_0") ? EmptyRow::kUniform : EmptyRow::kZero;
}

std::vector<float> Attended(const MultiHeadAttention& attention, const Input& queries, const Input& keys, const Input& values,
                            const Lengths& lengths) {
  const int64_t batch = queries.shape[0], steps = queries.shape[1], width = attention.options().num_hiddens;
  std::vector<float> out(static_cast<std::size_t>(batch * steps * width));
  attention.Forward(queries.view(), keys.view(), values.view(), View<float, 3>::Contiguous(out.data(), {batch, steps, width}),
                    lengths);
  return out;
}

// 200 steps beside 3 give the same bits on every target with fused multiply-adds, for any number of threads and alone.
void ExpectItsBits(const MultiHeadAttention& attention) {
  const MultiHeadAttentionOptions& options = attention.options();
  const int64_t width = options.num_hiddens;
  if (options.query_size != width || options.key_size != width || options.value_size != width) return;
  const BitsBatch batch({200, 3}, width);
  const auto attended = [&](const std::vector<float>& numbers, const std::vector<int64_t>& lengths, Executor& executor) {
    const auto rows = static_cast<int64_t>(lengths.size()), steps = static_cast<int64_t>(numbers.size()) / rows / width;
    const auto x = View<const float, 3>::Contiguous(numbers.data(), {rows, steps, width});
    std::vector<float> out(numbers.size());
    attention.Forward(x, x, x, View<float, 3>::Contiguous(out.data(), {rows, steps, width}),
                      Lengths::PerBatch(lengths.data(), rows), nullptr, executor);
    return out;
  };
  SerialExecutor serial;
  const std::vector<float> expected = attended(batch.numbers, batch.lengths, serial);
  for (int64_t row = 0; row < 2; ++row)
    EXPECT_EQ(attended(batch.Row(batch.numbers, row), {batch.lengths[static_cast<std::size_t>(row)]}, serial),
              batch.Row(expected, row));
  for (const int threads : {2, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(attended(batch.numbers, batch.lengths, pool), expected);
  }
  for (const std::string& target : SupportedTargets()) {
    if (!target.starts_with("AVX")) continue;
    UseTarget(target);
    EXPECT_EQ(attended(batch.numbers, batch.lengths, serial), expected) << target;
  }
  UseTarget("");
}

class GoldenAttentionLayer : public testing::TestWithParam<std::string> {};

TEST_P(GoldenAttentionLayer, Agrees) {
  const GoldenCase golden(GetParam());
  const bool self = golden.Has("input.X");
  const Input queries(golden, self ? "X" : "queries"), keys(golden, self ? "X" : "keys"), values(golden, self ? "X" : "values");
  MultiHeadAttentionOptions options;
  options.num_hiddens = golden.options.at("num_hiddens");
  options.num_heads = golden.options.at("num_heads");
  options.bias = golden.options.at("bias");
  options.query_size = queries.shape[2];
  options.key_size = keys.shape[2];
  options.value_size = values.shape[2];
  options.empty_row = EmptyRowOf(golden);
  MultiHeadAttention attention(options);
  golden.Load(attention.parameters());
  golden.ExpectClose(Attended(attention, queries, keys, values, ValidLens(golden).lengths), "output.Y", kTolerance);
  ExpectItsBits(attention);
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GoldenAttentionLayer);  // without the cases
INSTANTIATE_TEST_SUITE_P(, GoldenAttentionLayer, testing::ValuesIn(GoldenNames("d2l_", "_mha_")), CaseName);

std::vector<std::string> Present(const std::set<std::string>& known) {
  std::vector<std::string> names;
  for (const std::string& name : GoldenNames("")) {
    if (known.contains(name)) names.push_back(name);
  }
  return names;
}

// Self-attention without masks other than causality and padding of keys.
std::vector<std::string> OwnLayerNames() {
  return Present({"flax_mha_self", "flax_mha_nobias_causal_f32", "flax_nnx_mha_self", "keras_mha_self",
                  "keras_mha_causal_nobias_f32", "keras_gqa_basic", "paddle_mha_self_pad", "torch_mha_packed_self",
                  "torch_mha_seqfirst_causal_f32", "hf_t5_attention_enc", "hf_t5_attention_dec_causal"});
}

std::vector<std::string> OwnBlockNames() {
  return Present({"torch_enclayer_post_relu", "torch_enclayer_post_gelu_nobias", "torch_enclayer_pre_gelu",
                  "torch_enclayer_pre_relu_f32", "paddle_enclayer_post_relu"});
}

// [batch * steps]: how many keys each query sees, from a mask that is a prefix in every row. True means "may look", except for
// PyTorch, where it means the opposite.
std::vector<int64_t> KeyLengths(const GoldenCase& golden, const std::string& name, int64_t batch, int64_t steps) {
  const std::vector<double>& keep = golden.At(name).numbers;
  const bool inverted = golden.framework() == Framework::kTorch, of_keys = name == "mask.key_padding_mask";
  const auto rows = static_cast<int64_t>(keep.size()) / steps;
  std::vector<int64_t> lengths;
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t i = 0; i < steps; ++i) {
      const int64_t row = (of_keys ? b : rows == batch ? b : rows == steps ? i : b * steps + i) * steps;
      lengths.push_back(static_cast<int64_t>(std::accumulate(keep.begin() + row, keep.begin() + row + steps, 0.0)));
      if (inverted) lengths.back() = steps - lengths.back();
    }
  }
  return lengths;
}

// Those of all masks of the case; empty without one.
std::vector<int64_t> KeyLengths(const GoldenCase& golden, int64_t batch, int64_t steps) {
  std::vector<int64_t> lengths;
  for (const auto& [name, mask] : golden.tensors) {
    if (!name.starts_with("mask.")) continue;
    const std::vector<int64_t> others = KeyLengths(golden, name, batch, steps);
    if (lengths.empty()) lengths = others;
    for (std::size_t i = 0; i < lengths.size(); ++i) lengths[i] = std::min(lengths[i], others[i]);
  }
  return lengths;
}

// [a, b, c] -> [b, a, c]
std::vector<float> Swapped(const std::vector<float>& numbers, const std::vector<int64_t>& shape) {
  std::vector<float> swapped;
  for (int64_t j = 0; j < shape[1]; ++j) {
    for (int64_t i = 0; i < shape[0]; ++i) {
      const auto first = numbers.begin() + (i * shape[1] + j) * shape[2];
      swapped.insert(swapped.end(), first, first + shape[2]);
    }
  }
  return swapped;
}

class GoldenOwnLayer : public testing::TestWithParam<std::string> {};

TEST_P(GoldenOwnLayer, Agrees) {
  const GoldenCase golden(GetParam());
  const bool steps_first = golden.options.value("batch_first", true) == false;
  Input X(golden, "X");
  const std::vector<int64_t> given = X.shape;
  if (steps_first) {
    X.numbers = Swapped(X.numbers, X.shape);
    std::swap(X.shape[0], X.shape[1]);
  }
  MultiHeadAttentionOptions options;
  options.num_heads = golden.options.at("num_heads");
  options.num_hiddens = X.shape[2];
  for (const char* head_dim : {"key_dim", "d_kv"}) {
    if (golden.options.contains(head_dim)) options.head_dim = golden.options.at(head_dim);
  }
  if (golden.options.contains("num_key_value_heads") && golden.options.at("num_key_value_heads").is_number()) {
    options.kv_heads = golden.options.at("num_key_value_heads");
  }
  options.bias = golden.options.value("use_bias", golden.options.value("bias", true));
  const bool is_decoder = golden.options.value("is_decoder", false);
  if (golden.options.value("use_causal_mask", false) || is_decoder) options.causal = Causal::kBottomRight;
  if (golden.options.contains("scale")) options.scale = golden.options.at("scale").get<double>();
  if (golden.options.contains("num_buckets")) {
    T5Options t5;
    t5.buckets = golden.options.at("num_buckets");
    t5.max_distance = golden.options.at("max_distance");
    t5.bidirectional = !is_decoder;
    options.position = T5Position{t5};
  }
  MultiHeadAttention attention(options);
  golden.Load(attention.parameters());
  const std::vector<int64_t> numbers = KeyLengths(golden, X.shape[0], X.shape[1]);
  const Lengths lengths = numbers.empty() ? Lengths() : Lengths::PerQuery(numbers.data(), X.shape[0], X.shape[1]);
  std::vector<float> out = Attended(attention, X, X, X, lengths);
  if (steps_first) out = Swapped(out, X.shape);
  golden.ExpectClose(out, "output.Y", kTolerance);
  ExpectItsBits(attention);
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GoldenOwnLayer);  // without the cases
INSTANTIATE_TEST_SUITE_P(, GoldenOwnLayer, testing::ValuesIn(OwnLayerNames()), CaseName);

class GoldenOwnBlock : public testing::TestWithParam<std::string> {};

TEST_P(GoldenOwnBlock, Agrees) {
  const GoldenCase golden(GetParam());
  const bool steps_first = golden.options.value("batch_first", true) == false;
  Input X(golden, "X");
  const std::vector<int64_t> given = X.shape;
  if (steps_first) {
    X.numbers = Swapped(X.numbers, given);
    std::swap(X.shape[0], X.shape[1]);
  }
  TransformerEncoderBlockOptions options;
  options.attention.num_hiddens = golden.options.at("d_model");
  options.attention.num_heads = golden.options.at("nhead");
  options.attention.bias = golden.options.value("bias", true);
  if (golden.options.value("causal", false)) options.attention.causal = Causal::kBottomRight;
  options.ffn_num_hiddens = golden.options.at("dim_feedforward");
  options.layer_norm_eps = golden.options.at("layer_norm_eps");
  options.activation = golden.options.at("activation") == "gelu" ? Activation::kGelu : Activation::kRelu;
  const bool pre_norm = golden.options.value("norm_first", golden.options.value("normalize_before", false));
  options.norm = pre_norm ? Norm::kPre : Norm::kPost;
  TransformerEncoderBlock block(options);
  golden.Load(block.parameters());
  const std::vector<int64_t> numbers = KeyLengths(golden, X.shape[0], X.shape[1]);
  const Lengths lengths = numbers.empty() ? Lengths() : Lengths::PerQuery(numbers.data(), X.shape[0], X.shape[1]);
  const auto view = View<float, 3>::Contiguous(X.numbers.data(), {X.shape[0], X.shape[1], X.shape[2]});
  block.Forward(view, lengths, nullptr, ThreadPool::Default());
  golden.ExpectClose(steps_first ? Swapped(X.numbers, X.shape) : X.numbers, "output.Y", kTolerance);
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GoldenOwnBlock);  // without the cases
INSTANTIATE_TEST_SUITE_P(, GoldenOwnBlock, testing::ValuesIn(OwnBlockNames()), CaseName);

class GoldenEncoding : public testing::TestWithParam<std::string> {};

TEST_P(GoldenEncoding, Agrees) {
  const GoldenCase golden(GetParam());
  const int64_t width = golden.options.at("num_hiddens");
  const PositionalEncoding encoding(width, golden.options.at("max_len").get<int64_t>());
  std::vector<int64_t> rows(golden.At("output.P").shape.at(0));
  std::iota(rows.begin(), rows.end(), 0);
  if (golden.Has("index.rows")) rows.assign(golden.At("index.rows").numbers.begin(), golden.At("index.rows").numbers.end());
  const Input X(golden, "X");
  std::vector<float> out(X.numbers.size());
  // One step after the other, each at its own offset.
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto at = static_cast<int64_t>(i) * width;
    const View<const float, 3> step{X.numbers.data() + at, {X.shape[0], 1, width}, {X.shape[1] * width, width, 1}};
    encoding.Forward(step, {out.data() + at, step.extent, step.stride}, rows[i]);
  }
  // The frameworks compute angles in float32; the manifest says how far that is from the formula.
  const auto& tolerance = golden.manifest.at("tolerance").at("output");
  golden.ExpectClose(out, "output.XplusP", tolerance.at("rtol").get<double>() + tolerance.at("atol").get<double>());
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GoldenEncoding);  // without the cases
INSTANTIATE_TEST_SUITE_P(, GoldenEncoding, testing::ValuesIn(GoldenNames("d2l_", "_pe_")), CaseName);

class GoldenBlock : public testing::TestWithParam<std::string> {};

TEST_P(GoldenBlock, Agrees) {
  const GoldenCase golden(GetParam());
  TransformerEncoderBlockOptions options;
  options.attention.num_hiddens = golden.options.at("num_hiddens");
  options.attention.num_heads = golden.options.at("num_heads");
  options.attention.bias = golden.options.at("attention_bias");
  options.attention.empty_row = EmptyRowOf(golden);
  options.ffn_num_hiddens = golden.options.at("ffn_num_hiddens");
  options.layer_norm_eps = golden.options.at("layer_norm_eps");
  TransformerEncoderBlock block(options);
  golden.Load(block.parameters());
  Input X(golden, "X");
  const auto view = View<float, 3>::Contiguous(X.numbers.data(), {X.shape[0], X.shape[1], X.shape[2]});
  block.Forward(view, ValidLens(golden).lengths, nullptr, ThreadPool::Default());
  golden.ExpectClose(X.numbers, "output.Y", kTolerance);
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GoldenBlock);  // without the cases
INSTANTIATE_TEST_SUITE_P(, GoldenBlock, testing::ValuesIn(GoldenNames("d2l_", "_encblock")), CaseName);

// So that no case is left out in silence.
TEST(GoldenLayers, AreAllCompared) {
  if (GoldenNames("").empty()) GTEST_SKIP() << WhyNoGoldenCases();
  EXPECT_EQ(GoldenNames("d2l_", "_mha_").size(), 36u);  // seven in each of five frameworks, one of d2l 0.17.6
  EXPECT_EQ(OwnLayerNames().size(), 11u);
  EXPECT_EQ(OwnBlockNames().size(), 5u);
  EXPECT_EQ(GoldenNames("d2l_", "_pe_").size(), 15u);
  EXPECT_EQ(GoldenNames("d2l_", "_encblock").size(), 5u);
}

}  // namespace
}  // namespace heed
