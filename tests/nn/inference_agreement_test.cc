// Layers without LibTorch beside those with it: the same weights of each framework, the same inputs, the same outputs.
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "golden_cases.h"
#include "heed/multi_head_attention.h"
#include "heed/nn/multi_head_attention.h"
#include "heed/nn/weights.h"

namespace heed::nn {
namespace {

class InferenceAgreementTest : public testing::TestWithParam<std::string> {};

View<const float, 3> ViewOf(const at::Tensor& X) {
  return View<const float, 3>::Contiguous(X.const_data_ptr<float>(), {X.size(0), X.size(1), X.size(2)});
}

// The tensors as arrays in memory, under the framework's names.
void Load(const Parameters& parameters, const TensorMap& tensors, Framework framework) {
  std::map<std::string, Array> arrays;
  for (const auto& [name, tensor] : tensors) {
    const auto count = static_cast<std::size_t>(tensor.numel());
    arrays[name] = {tensor.sizes().vec(), {tensor.const_data_ptr<float>(), count}};
  }
  LoadWeights(parameters, arrays, framework);
}

TEST_P(InferenceAgreementTest, WithinAMillionth) {
  const GoldenCase golden(GetParam());
  const bool self = golden.Has("input.X");
  const at::Tensor queries = golden.At(self ? "input.X" : "input.queries").contiguous();
  const at::Tensor keys = golden.At(self ? "input.X" : "input.keys").contiguous();
  const at::Tensor values = golden.At(self ? "input.X" : "input.values").contiguous();
  MultiHeadAttentionOptions with(golden.options.at("num_hiddens"), golden.options.at("num_heads"));
  with.bias(golden.options.at("bias")).query_size(queries.size(2)).key_size(keys.size(2)).value_size(values.size(2));
  MultiHeadAttention module(with.empty_row(EmptyRow::kUniform));
  load_weights(*module, golden.WithPrefix("param."), golden.framework());
  const at::Tensor lengths =
      golden.Has("mask.valid_lens") ? golden.At("mask.valid_lens").to(at::kLong).contiguous() : at::Tensor();
  const at::NoGradGuard no_grad;
  const at::Tensor expected = module(queries, keys, values, lengths);

  heed::MultiHeadAttentionOptions without;
  without.num_hiddens = with.num_hiddens();
  without.num_heads = with.num_heads();
  without.bias = with.bias();
  without.query_size = with.query_size();
  without.key_size = with.key_size();
  without.value_size = with.value_size();
  without.empty_row = EmptyRow::kUniform;
  heed::MultiHeadAttention layer(without);
  Load(layer.parameters(), golden.WithPrefix("param."), golden.framework());
  Lengths valid_lens;
  if (lengths.defined()) {
    const auto* numbers = lengths.const_data_ptr<int64_t>();
    valid_lens = lengths.dim() == 1 ? Lengths::PerBatch(numbers, lengths.size(0))
                                    : Lengths::PerQuery(numbers, lengths.size(0), lengths.size(1));
  }
  const at::Tensor out = at::empty_like(expected);
  const auto view = View<float, 3>::Contiguous(out.mutable_data_ptr<float>(), {out.size(0), out.size(1), out.size(2)});
  layer.Forward(ViewOf(queries), ViewOf(keys), ViewOf(values), view, valid_lens);
  EXPECT_LE((out - expected).abs().max().item<float>(), 1e-6f * expected.abs().max().item<float>());
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(InferenceAgreementTest);  // without the cases
INSTANTIATE_TEST_SUITE_P(, InferenceAgreementTest, testing::ValuesIn(GoldenNames("d2l_", "_mha_")), CaseName);

}  // namespace
}  // namespace heed::nn
