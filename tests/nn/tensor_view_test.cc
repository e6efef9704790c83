// Every tensor of a call, spoilt in every way: refused by its name, or read as what it stands for.
#include "tensor_view.h"

#include <functional>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "heed/error.h"
#include "heed/nn/attention.h"
#include "heed/nn/cache.h"
#include "heed/nn/dropout.h"
#include "heed/nn/positions.h"
#include "heed/nn/rotary.h"
#include "heed/view.h"
#include "tests/error_text.h"

namespace heed::nn {
namespace {

// The same numbers, lazily negated.
at::Tensor Negated(const at::Tensor& tensor) { return at::_neg_view(tensor.neg()); }

// A tensor of a call by its name.
struct Argument {
  std::string name;
  at::Tensor* tensor;
};

struct Call {
  at::Tensor query, key, value, heads, rows;
  AttentionOptions options;

  AttentionOutput Run() const {
    AttentionOptions chosen = options;
    if (heads.defined()) chosen.return_weights_of(heads, rows);
    return attention(query, key, value, chosen);
  }
  // All that the call has.
  std::vector<Argument> Arguments() {
    std::vector<Argument> arguments{{"query", &query}, {"key", &key}, {"value", &value}, {"heads", &heads}, {"rows", &rows}};
    const auto all = options.tensors().All();
    for (std::size_t t = 0; t < all.size(); ++t) arguments.push_back({AttentionTensors::kNames[t], all[t]});
    std::erase_if(arguments, [](const Argument& argument) { return !argument.tensor->defined(); });
    return arguments;
  }
};

// Together they have every tensor: some exclude each other.
std::vector<Call> Calls() {
  at::manual_seed(5);
  const auto ints = [](const std::vector<int64_t>& values) { return at::tensor(values, at::kLong); };
  Call whole{at::randn({2, 2, 3, 8}), at::randn({2, 2, 5, 8}), at::randn({2, 2, 5, 8}), ints({1, 0}), ints({2}), {}};
  whole.options.bias(at::randn({2, 2, 3, 5})).mask(at::randn({2, 1, 3, 5}).gt(-1)).relative_bias(at::randn({2, 7}));
  whole.options.slopes(at::randn({2})).content(at::randn({7, 8}), at::randn({7, 8}), at::randn({7, 8}));
  whole.options.tensors().transformer_xl_positions = at::randn({2, 7, 8});
  whole.options.tensors().transformer_xl_bias = at::randn({2, 8});
  whole.options.tensors().contextual_position = at::randn({5, 8});
  whole.options.sinks(at::randn({2}));
  whole.options.query_lengths(ints({3, 2})).key_lengths(ints({5, 4}));
  whole.options.query_positions(ints({3, 1, 2})).key_positions(ints({0, 2, 1, 4, 3}));
  const heed::program::Captured rate(0), mark = heed::program::Captured::Whole(1);
  using heed::program::Head, heed::program::Key, heed::program::Query;
  whole.options.score(ScoreProgram(heed::program::Score() - rate(Head()) * mark(Key())),
                      {at::randn({2}), ints({1, 0, 2, 1, 3})});
  whole.options.mask_program(MaskProgram(rate(Query()) < mark(Key())), {at::randn({3}), ints({1, 2, 3, 4, 5})});
  Call prefix{at::randn({2, 2, 3, 8}), at::randn({2, 2, 5, 8}), at::randn({2, 2, 5, 8}), {}, {}, {}};
  prefix.options.causal(true).prefix_lengths(ints({2, 3}));
  Call packed{at::randn({1, 2, 6, 8}), at::randn({1, 2, 6, 8}), at::randn({1, 2, 6, 8}), {}, {}, {}};
  packed.options.causal(true).packed(ints({0, 2, 6}), ints({0, 3, 6}));
  packed.options.tensors().column_decay = at::rand({8});
  return {whole, prefix, packed};
}

TEST(TensorViewTest, TheCallsHaveEveryTensor) {
  std::vector<bool> seen(AttentionTensors::kCount);
  for (Call& call : Calls()) {
    const auto all = call.options.tensors().All();
    for (std::size_t t = 0; t < all.size(); ++t) seen[t] = seen[t] || all[t]->defined();
  }
  for (std::size_t t = 0; t < seen.size(); ++t) EXPECT_TRUE(seen[t]) << AttentionTensors::kNames[t];
}

TEST(TensorViewTest, TensorsWithoutMemoryOnTheCpuAreRefusedByName) {
  for (Call& call : Calls()) {
    for (const Argument& argument : call.Arguments()) {
      const at::Tensor sound = *argument.tensor;
      *argument.tensor = sound.to(at::kMeta);
      EXPECT_EQ(WhatOf<InvalidArgument>([&] { call.Run(); }), argument.name + ": expected a CPU tensor, got one on meta");
      *argument.tensor = sound.to_sparse();
      EXPECT_EQ(WhatOf<InvalidArgument>([&] { call.Run(); }), argument.name + ": expected a strided tensor, got layout Sparse");
      *argument.tensor = sound;
    }
  }
}

TEST(TensorViewTest, LazilyNegatedTensorsAreReadAsWhatTheyStandFor) {
  for (Call& call : Calls()) {
    const AttentionOutput expected = call.Run();
    for (const Argument& argument : call.Arguments()) {
      const at::Tensor sound = *argument.tensor;
      if (sound.scalar_type() == at::kBool) continue;
      *argument.tensor = Negated(sound);
      ASSERT_TRUE(argument.tensor->is_neg());
      const AttentionOutput result = call.Run();
      EXPECT_TRUE(at::equal(result.output, expected.output)) << argument.name;
      EXPECT_TRUE(at::equal(result.lse, expected.lse)) << argument.name;
      EXPECT_EQ(result.weights.defined(), expected.weights.defined());
      EXPECT_TRUE(!result.weights.defined() || at::equal(result.weights, expected.weights)) << argument.name;
      *argument.tensor = sound;
    }
  }
}

TEST(TensorViewTest, ZerosWithoutMemoryAreRead) {
  Call call = Calls()[1];
  const at::Tensor zeros = at::zeros_like(call.query);
  call.query = at::_efficientzerotensor(zeros.sizes(), zeros.options());
  ASSERT_TRUE(call.query._is_zerotensor());
  const at::Tensor output = call.Run().output;
  call.query = zeros;
  EXPECT_TRUE(at::equal(output, call.Run().output));
}

TEST(TensorViewTest, AViewOfAnUncheckedTensorIsRefused) {
  const at::Tensor numbers = at::randn({2, 3});
  EXPECT_EQ((ViewOf<const float, 2>(numbers).extent), (std::array<int64_t, 2>{2, 3}));
  EXPECT_FALSE((ViewOf<const float, 2>(at::Tensor()).present()));
  EXPECT_TRUE((ViewOf<const float, 2>(at::empty({0, 3})).present()));
  EXPECT_THROW((ViewOf<const float, 2>(Negated(numbers))), Error);
  EXPECT_THROW((ViewOf<const float, 2>(numbers.to(at::kMeta))), Error);
  EXPECT_THROW((ViewOf<const float, 2>(numbers.to_sparse())), Error);
  EXPECT_THROW((ViewOf<const double, 2>(numbers)), Error);
  EXPECT_THROW((ViewOf<const float, 3>(numbers)), Error);
  EXPECT_THROW(ElementsOf<const float>(numbers.t()), Error);
}

// d loss / d inputs where the loss takes the output through the imaginary part of a conjugate, whose gradient arrives lazily
// negated, and through the same without laziness.
void ExpectSameGradients(const char* what, const std::function<at::Tensor(const std::vector<at::Tensor>&)>& f,
                         std::vector<at::Tensor> inputs) {
  for (at::Tensor& input : inputs) input = input.detach().clone().set_requires_grad(true);
  const at::Tensor output = f(inputs), weight = at::randn_like(output);
  const auto gradients = [&](const at::Tensor& number) {
    return torch::autograd::grad({(at::imag(number) * weight).square().sum()}, inputs, {}, /*retain_graph=*/true);
  };
  const auto lazy = gradients(at::complex(at::zeros_like(output), output).conj());
  const auto plain = gradients(at::complex(at::zeros_like(output), -output));
  for (std::size_t i = 0; i < inputs.size(); ++i) EXPECT_TRUE(at::allclose(lazy[i], plain[i], 1e-12, 1e-12)) << what << i;
}

TEST(TensorViewTest, LazilyNegatedGradients) {
  at::manual_seed(6);
  const auto random = [](at::IntArrayRef shape) { return at::randn(shape, at::kDouble); };
  const std::vector<at::Tensor> operands{random({2, 2, 3, 4}), random({2, 2, 5, 4}), random({2, 2, 5, 4})};
  ExpectSameGradients(
      "output", [](const auto& x) { return attention(x[0], x[1], x[2]).output; }, operands);
  ExpectSameGradients("lse", [&](const auto& x) { return attention(x[0], x[1], operands[2]).lse; }, {operands[0], operands[1]});
  const auto with_table = [&](const at::Tensor& table, const auto& set) {
    std::vector<at::Tensor> inputs = operands;
    inputs.push_back(table);
    ExpectSameGradients(
        "table", [&](const auto& x) { return attention(x[0], x[1], x[2], set(AttentionOptions(), x[3])).output; }, inputs);
  };
  with_table(random({2, 7}), [](AttentionOptions options, const at::Tensor& t) { return options.relative_bias(t); });
  with_table(random({2}), [](AttentionOptions options, const at::Tensor& t) { return options.slopes(t); });
  with_table(random({3, 5}), [](AttentionOptions options, const at::Tensor& t) { return options.bias(t); });
  with_table(random({7, 4}), [](AttentionOptions options, const at::Tensor& t) { return options.content(t, t, t); });
  const at::Tensor cos = random({3, 2}), sin = random({3, 2});
  ExpectSameGradients("rotary", [&](const auto& x) { return apply_rotary(x[0], cos, sin); }, {operands[0]});
  ExpectSameGradients("dropout", [](const auto& x) { return drop_elements(x[0], 0.5, true); }, {operands[0]});
}

TEST(TensorViewTest, RotaryReadsOrRefusesEveryTensor) {
  const at::Tensor x = at::randn({2, 2, 3, 8}), cos = at::randn({9, 4}), sin = at::randn({9, 4});
  const at::Tensor positions = at::tensor({0, 8, 3}, at::kLong).unsqueeze(0);
  std::vector<at::Tensor> tensors{x, cos, sin, positions};
  const auto run = [&] { return apply_rotary(tensors[0], tensors[1], tensors[2], {}, tensors[3]); };
  const at::Tensor expected = run();
  const char* const names[] = {"x", "cos", "sin", "positions"};
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const at::Tensor sound = tensors[t];
    tensors[t] = Negated(sound);
    EXPECT_TRUE(at::equal(run(), expected)) << names[t];
    tensors[t] = sound.to(at::kMeta);
    EXPECT_EQ(WhatOf<InvalidArgument>(run), names[t] + std::string(": expected a CPU tensor, got one on meta"));
    tensors[t] = sound;
  }
  const at::Tensor of = rotary_tables({{1.0, 0.1}}, positions, at::kFloat).cos;
  EXPECT_TRUE(at::equal(rotary_tables({{1.0, 0.1}}, Negated(positions), at::kFloat).cos, of));
}

TEST(TensorViewTest, ACacheRefusesWhatItCannotHold) {
  const at::Tensor tokens = at::randn({1, 2, 3, 4});
  for (const at::Tensor& spoilt : {tokens.to(at::kMeta), tokens.to_sparse()}) {
    KeyValueCache cache;
    EXPECT_NE(WhatOf<InvalidArgument>([&] { cache.append(spoilt, tokens); }).find("key: expected a"), std::string::npos);
    EXPECT_NE(WhatOf<InvalidArgument>([&] { cache.append(tokens, spoilt); }).find("value: expected a"), std::string::npos);
    EXPECT_EQ(cache.length(), 0);
    cache.append(Negated(tokens), tokens);
    EXPECT_TRUE(at::equal(cache.keys(), tokens));
    EXPECT_NE(WhatOf<InvalidArgument>([&] {
                cache.reorder(at::zeros({1}, at::kLong).to(at::kMeta));
              }).find("rows: expected a CPU tensor"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace heed::nn
