#include "heed/nn/cache.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/init.h>

#include "heed/nn/encoders.h"
#include "heed/nn/multi_head_attention.h"
#include "heed/nn/score_terms.h"
#include "heed/nn/window_biases.h"
#include "refusal.h"

namespace heed::nn {
namespace {

// Schemes that start at zero would hide where a query stands.
void Stir(const torch::nn::Module& module) {
  const at::NoGradGuard no_grad;
  for (const auto& item : module.named_parameters())
    if (item.key().find("position.") != std::string::npos) torch::nn::init::normal_(item.value());
}

TEST(KeyValueCacheTest, HoldsWhatWasAppended) {
  for (const std::optional<int64_t> capacity : {std::optional<int64_t>(), {9}, {100}}) {
    KeyValueCache cache(capacity);
    EXPECT_FALSE(cache.keys().defined());
    const at::Tensor keys = at::randn({2, 3, 9, 4}), values = at::randn({2, 3, 9, 5});
    at::Tensor early;
    for (const auto& [begin, end] : std::vector<std::pair<int64_t, int64_t>>{{0, 2}, {2, 2}, {2, 3}, {3, 9}}) {
      cache.append(keys.slice(2, begin, end), values.slice(2, begin, end));
      EXPECT_EQ(cache.length(), end);
      EXPECT_TRUE(at::equal(cache.keys(), keys.slice(2, 0, end)));
      EXPECT_TRUE(at::equal(cache.values(), values.slice(2, 0, end)));
      if (!early.defined()) early = cache.keys();
    }
    EXPECT_TRUE(at::equal(early, keys.slice(2, 0, 2)));
  }
}

TEST(KeyValueCacheTest, AppendsInPlaceWithinItsCapacity) {
  KeyValueCache cache(8);
  cache.append(at::randn({1, 1, 1, 4}), at::randn({1, 1, 1, 4}));
  const void* memory = cache.keys().const_data_ptr();
  for (int i = 0; i < 7; ++i) cache.append(at::randn({1, 1, 1, 4}), at::randn({1, 1, 1, 4}));
  EXPECT_EQ(cache.keys().const_data_ptr(), memory);
}

TEST(KeyValueCacheTest, ACapacityThatWasAskedForIsABound) {
  const at::Tensor tokens = at::randn({1, 1, 9, 4});
  for (const int64_t capacity : {0, 1, 8}) {
    KeyValueCache cache(capacity);
    cache.append(tokens.slice(2, 0, capacity), tokens.slice(2, 0, capacity));
    ExpectRefused([&] { cache.append(tokens.slice(2, 8), tokens.slice(2, 8)); },
                  {"do not fit into a capacity of " + std::to_string(capacity)});
    EXPECT_TRUE(at::equal(cache.keys(), tokens.slice(2, 0, capacity)));
  }
  KeyValueCache cache(8);
  ExpectRefused([&] { cache.append(tokens, tokens); }, "9 tokens do not fit into a capacity of 8");
  LayerCaches caches(1, 8);
  ExpectRefused([&] { caches[0].append(tokens, tokens); }, "9 tokens do not fit into a capacity of 8");
}

TEST(KeyValueCacheTest, DoublesWithoutACapacity) {
  KeyValueCache cache;
  const at::Tensor token = at::randn({1, 1, 1, 4}), three = at::randn({1, 1, 3, 4});
  std::vector<int64_t> moved;  // lengths at which the memory was exchanged
  const void* memory = nullptr;
  for (const at::Tensor& tokens : {three, token, token, token, token, three, three, token}) {
    cache.append(tokens, tokens);
    if (cache.keys().const_data_ptr() != memory) moved.push_back(cache.length());
    memory = cache.keys().const_data_ptr();
  }
  EXPECT_EQ(moved, (std::vector<int64_t>{3, 4, 7, 13}));
}

TEST(KeyValueCacheTest, TruncatesAndReorders) {
  KeyValueCache cache;
  const at::Tensor keys = at::randn({2, 1, 4, 2}), values = at::randn({2, 1, 4, 2});
  cache.append(keys, values);
  cache.truncate(3);
  cache.reorder(at::tensor(std::vector<int64_t>{1, 1, 0}));
  EXPECT_TRUE(at::equal(cache.keys(), at::stack({keys[1], keys[1], keys[0]}).slice(2, 0, 3)));
  EXPECT_TRUE(at::equal(cache.values(), at::stack({values[1], values[1], values[0]}).slice(2, 0, 3)));
  cache.reorder(at::empty({0}, at::kLong));  // no sentence goes on
  EXPECT_EQ(cache.keys().sizes(), at::IntArrayRef({0, 1, 3, 2}));
}

TEST(KeyValueCacheTest, RefusesWhatRequiresAGradientWhileGradientsAreRecorded) {
  KeyValueCache cache;
  const at::Tensor plain = at::randn({1, 1, 2, 2}), trained = at::randn({1, 1, 2, 2}).set_requires_grad(true);
  ExpectRefused([&] { cache.append(trained, plain); }, "key: requires a gradient");
  ExpectRefused([&] { cache.append(plain, trained); }, "value: requires a gradient");
  EXPECT_FALSE(cache.keys().defined());
  const at::NoGradGuard no_grad;
  cache.append(trained, trained);
  EXPECT_FALSE(cache.keys().requires_grad());
}

TEST(KeyValueCacheTest, RefusesBeforeAnythingChanges) {
  KeyValueCache cache;
  const at::Tensor keys = at::randn({2, 1, 4, 2}), values = at::randn({2, 1, 4, 3});
  ExpectRefused([&] { cache.append(keys, at::randn({2, 1, 5, 3})); }, "value: expected shape [2, 1, 4, 3], got [2, 1, 5, 3]");
  ExpectRefused([&] { cache.append(keys, at::randn({1, 1, 4, 3})); }, "value: expected shape [2, 1, 4, 3]");
  ExpectRefused([&] { cache.append(keys, values.to(at::kDouble)); }, "value: expected Float as the cache has, got Double");
  ExpectRefused([&] { cache.append(at::Tensor(), values); }, "key: expected shape [batch, kv_heads, n, width]");
  EXPECT_FALSE(cache.keys().defined());
  ExpectRefused([&] { cache.append(at::randn({2, 4, 2}), values); }, "key: expected shape");
  cache.append(keys, values);
  ExpectRefused([&] { cache.append(at::randn({2, 1, 1, 2}), at::randn({2, 1, 1, 2})); }, "value: expected shape [2, 1, 1, 3]");
  ExpectRefused([&] { cache.append(at::randn({2, 2, 1, 2}), values); }, "key: expected shape [2, 1, 1, 2]");
  ExpectRefused([&] { cache.append(keys, at::Tensor()); }, "value: expected a tensor");
  ExpectRefused([&] { cache.append(keys.to(at::kDouble), values.to(at::kDouble)); }, "key: expected Float");
  ExpectRefused([&] { cache.truncate(5); }, "expected 0..4, got 5");
  ExpectRefused([&] { cache.reorder(at::tensor(std::vector<int64_t>{2})); }, "below 2, got 2..2");
  ExpectRefused([&] { cache.reorder(at::tensor({0.0})); }, "rows: expected int64");
  ExpectRefused([] { KeyValueCache(-1); }, "capacity");
  EXPECT_TRUE(at::equal(cache.keys(), keys));
}

TEST(CachedAttentionTest, AttendsOverAllThatWasAppended) {
  const at::NoGradGuard no_grad;
  MultiHeadAttention attention(MultiHeadAttentionOptions(8, 4).kv_heads(2).causal(Causal::kBottomRight));
  attention->to(at::kDouble);
  const at::Tensor X = at::randn({2, 6, 8}, at::kDouble);
  const at::Tensor lens = at::tensor(std::vector<int64_t>{6, 4});
  KeyValueCache cache;
  std::vector<at::Tensor> steps;
  for (int64_t i = 0; i < 6; ++i) {
    const at::Tensor x = X.narrow(1, i, 1);
    steps.push_back(attention(x, x, x, lens, &cache));
  }
  EXPECT_TRUE(at::allclose(at::cat(steps, 1), attention(X, X, X, lens), 0, 1e-12));
}

TEST(CachedAttentionTest, ProjectsKeysOnceForManyQueries) {
  const at::NoGradGuard no_grad;
  MultiHeadAttention attention(MultiHeadAttentionOptions(8, 2).key_size(5).value_size(7));
  attention->to(at::kDouble);
  const at::Tensor X = at::randn({2, 3, 8}, at::kDouble), K = at::randn({2, 4, 5}, at::kDouble),
                   V = at::randn({2, 4, 7}, at::kDouble), lens = at::tensor(std::vector<int64_t>{2, 4});
  KeyValueCache cache;
  ExpectRefused([&] { attention->attend(X, cache); }, "nothing was appended");
  attention->append(K, V, cache);
  EXPECT_TRUE(at::allclose(attention->attend(X, cache, lens), attention(X, K, V, lens), 0, 1e-12));
  EXPECT_EQ(cache.length(), 4);
}

// W_k and W_v would get no gradient, silently.
TEST(CachedAttentionTest, IsRefusedWhereKeysWouldTrain) {
  MultiHeadAttention attention(MultiHeadAttentionOptions(8, 2));
  const at::Tensor X = at::randn({2, 3, 8});
  KeyValueCache cache;
  ExpectRefused([&] { attention->forward(X, X, X, {}, &cache); }, "key: requires a gradient");
  ExpectRefused([&] { attention->append(X, X, cache); }, "key: requires a gradient");
  EXPECT_EQ(cache.length(), 0);
  for (const at::Tensor& parameter : {attention->W_k->weight, attention->W_v->weight}) parameter.set_requires_grad(false);
  attention->forward(X, X, X, {}, &cache).sum().backward();
  EXPECT_TRUE(attention->W_q->weight.grad().abs().max().item<float>() > 0);
}

// Timestamps, unevenly spaced and different in each row, reach the scheme and causality; with a cache as well.
TEST(CachedAttentionTest, StepsStandWhereTheCallerSays) {
  const at::NoGradGuard no_grad;
  Rotary rotary(4);
  MultiHeadAttention attention(MultiHeadAttentionOptions(8, 2).position(rotary).causal(Causal::kBottomRight));
  attention->to(at::kDouble);
  const at::Tensor X = at::randn({2, 3, 8}, at::kDouble), Y = at::randn({2, 5, 8}, at::kDouble);
  const StepPositions places{at::rand({2, 3}, at::kDouble) * 9 + 3, at::rand({2, 5}, at::kDouble) * 9};
  const auto split = [](const at::Tensor& Z) { return Z.unflatten(2, {2, 4}).transpose(1, 2); };
  AttentionOptions call;
  call.causal(true).position(rotary).query_positions(places.queries).key_positions(places.keys);
  const at::Tensor heads =
      heed::nn::attention(split(attention->W_q(X)), split(attention->W_k(Y)), split(attention->W_v(Y)), call).output;
  const at::Tensor expected = attention->W_o(heads.transpose(1, 2).flatten(2));
  EXPECT_TRUE(at::allclose(attention(X, Y, Y, at::Tensor(), nullptr, places), expected, 0, 1e-12));
  KeyValueCache cache;
  EXPECT_TRUE(at::allclose(attention->forward(X, Y, Y, {}, &cache, places), expected, 0, 1e-12));
  EXPECT_TRUE(at::allclose(attention->attend(X, cache, {}, places), expected, 0, 1e-12));
  EXPECT_FALSE(at::allclose(attention->forward(X, Y, Y), expected, 0, 1e-3));
  ExpectRefused(
      [&] {
        attention->attend(X, cache, {}, {places.queries, places.keys / 2});
      },
      "that the cached keys were turned by");
  EXPECT_TRUE(at::allclose(cache.key_positions(), places.keys, 0, 0));
}

// Step by step with the positions of all tokens so far, whether the scheme turns keys or not.
TEST(CachedAttentionTest, TheLastOfListedPositionsAreTheQueries) {
  const at::NoGradGuard no_grad;
  Rotary rotary(4);
  Alibi alibi(2);
  const at::Tensor X = at::randn({2, 5, 8}), places = at::tensor(std::vector<int64_t>{0, 2, 5, 9, 10});
  for (const auto& options : {MultiHeadAttentionOptions(8, 2), MultiHeadAttentionOptions(8, 2).position(rotary),
                              MultiHeadAttentionOptions(8, 2).position(alibi)}) {
    MultiHeadAttention attention(MultiHeadAttentionOptions(options).causal(Causal::kBottomRight));
    const at::Tensor whole = attention->forward(X, X, X, {}, nullptr, {places, places});
    KeyValueCache cache;
    for (int64_t n = 1; n <= 5; ++n) {
      const at::Tensor x = X.narrow(1, n - 1, 1);
      const at::Tensor step = attention->forward(x, x, x, {}, &cache, {{}, places.narrow(0, 0, n)});
      EXPECT_TRUE(at::allclose(step, whole.narrow(1, n - 1, 1), 1e-4, 1e-5)) << n;
    }
  }
}

TEST(CachedAttentionTest, KeysTurnOnceAndAreKeptTurned) {
  const at::NoGradGuard no_grad;
  Rotary rotary(4);
  MultiHeadAttention attention(MultiHeadAttentionOptions(8, 2).position(rotary).causal(Causal::kBottomRight));
  attention->to(at::kDouble);
  const at::Tensor X = at::randn({2, 70, 8}, at::kDouble), whole = attention(X, X, X);
  const at::Tensor keys = attention->W_k(X).unflatten(2, {2, 4}).transpose(1, 2);
  KeyValueCache turned, given;
  given.append(keys, attention->W_v(X).unflatten(2, {2, 4}).transpose(1, 2));
  std::vector<at::Tensor> steps;
  for (const auto& [begin, end] : std::vector<std::pair<int64_t, int64_t>>{{0, 60}, {60, 61}, {61, 70}}) {
    const at::Tensor x = X.slice(1, begin, end);
    steps.push_back(attention->forward(x, x, x, {}, &turned));
  }
  EXPECT_TRUE(at::allclose(at::cat(steps, 1), whole, 0, 1e-12));
  EXPECT_EQ(turned.turned_by().get(), rotary.get());
  EXPECT_TRUE(at::allclose(turned.keys(), rotary->rotate_key(keys, int64_t{0}), 0, 1e-12));
  // Keys that somebody else has put into a cache, as they are, turn at each call.
  EXPECT_FALSE(given.turned_by());
  EXPECT_TRUE(at::allclose(attention->attend(X, given), whole, 0, 1e-12));
  turned.truncate(69);
  turned.reorder(at::tensor(std::vector<int64_t>{1, 0}));
  const at::Tensor last = X.flip(0).slice(1, 69);
  EXPECT_TRUE(at::allclose(attention->forward(last, last, last, {}, &turned), whole.flip(0).slice(1, 69), 0, 1e-12));
}

TEST(CachedAttentionTest, PositionsOfTurnedKeysFollowTheirTokens) {
  const at::NoGradGuard no_grad;
  Rotary rotary(4);
  MultiHeadAttention attention(MultiHeadAttentionOptions(8, 2).position(rotary).causal(Causal::kBottomRight));
  attention->to(at::kDouble);
  const at::Tensor X = at::randn({2, 6, 8}, at::kDouble), where = std::get<0>(at::rand({2, 6}, at::kDouble).mul(9).sort(1));
  const at::Tensor whole = attention->forward(X, X, X, {}, nullptr, {where, where});
  KeyValueCache cache;
  std::vector<at::Tensor> steps;
  for (const auto& [begin, end] : std::vector<std::pair<int64_t, int64_t>>{{0, 3}, {3, 4}, {4, 6}}) {
    const at::Tensor x = X.slice(1, begin, end);
    steps.push_back(attention->forward(x, x, x, {}, &cache, {{}, where.slice(1, 0, end)}));
  }
  EXPECT_TRUE(at::allclose(at::cat(steps, 1), whole, 0, 1e-12));
  cache.truncate(5);
  cache.reorder(at::tensor(std::vector<int64_t>{1, 0}));
  EXPECT_TRUE(at::equal(cache.key_positions(), where.flip(0).slice(1, 0, 5)));
  const at::Tensor last = X.flip(0).slice(1, 5);
  EXPECT_TRUE(
      at::allclose(attention->forward(last, last, last, {}, &cache, {{}, where.flip(0)}), whole.flip(0).slice(1, 5), 0, 1e-12));
  ExpectRefused([&] { attention->append(last, last, cache); }, "positions: expected those of the new tokens");
  EXPECT_EQ(cache.length(), 6);
}

TEST(CachedAttentionTest, OneSchemeTurnsTheKeysOfACache) {
  const at::NoGradGuard no_grad;
  const auto module = [] {
    return MultiHeadAttention(MultiHeadAttentionOptions(8, 2).position(Rotary(4)).causal(Causal::kBottomRight));
  };
  MultiHeadAttention one = module(), other = module();
  const at::Tensor X = at::randn({2, 3, 8}), keys = at::randn({2, 2, 3, 4});
  KeyValueCache cache;
  one->append(X, X, cache);
  ExpectRefused([&] { other->forward(X, X, X, {}, &cache); }, "another scheme turned");
  ExpectRefused([&] { other->attend(X, cache); }, "another scheme turned");
  ExpectRefused([&] { cache.append(keys, keys); }, "another scheme turned");
  EXPECT_EQ(cache.length(), 3);
  cache.truncate(0);
  cache.append(keys, keys);
  ExpectRefused([&] { cache.append(keys, keys, one->position); }, "keys that are not turned");
  ExpectRefused([&] { KeyValueCache().append(keys, keys, Alibi(2).ptr()); }, "does not turn keys");
}

// Counts how often its tables are computed.
template <class Scheme>
struct Counting : Scheme {
  using Scheme::Scheme;
  AttentionTensors tensors() const override {
    ++made;
    return Scheme::tensors();
  }
  mutable int made = 0;
};

// A layer with the scheme, and one step after the other through a cache.
struct Decoding {
  explicit Decoding(const std::shared_ptr<AttentionPosition>& scheme)
      : layer(MultiHeadAttentionOptions(8, 2).position(scheme).causal(Causal::kBottomRight)) {
    Stir(*layer);
  }
  // The next step, which must be what it is without a cache.
  void ExpectStep() {
    const at::Tensor step = layer->forward(X.narrow(1, at, 1), X.narrow(1, at, 1), X.narrow(1, at, 1), {}, &cache);
    ++at;
    const at::Tensor so_far = X.narrow(1, 0, at);
    EXPECT_TRUE(at::allclose(step, layer->forward(so_far, so_far, so_far).narrow(1, at - 1, 1), 0, 1e-5));
  }

  MultiHeadAttention layer;
  KeyValueCache cache;
  at::Tensor X = at::randn({2, 20, 8});
  int64_t at = 0;
};

// Each step computes the tables once without the cache, beside what it does with it.
template <class Scheme>
void ExpectTablesMadeOnce(const std::shared_ptr<Counting<Scheme>>& scheme, const std::string& changed) {
  Decoding decoding(scheme);
  const auto made = [&] {
    const int before = scheme->made;
    decoding.ExpectStep();
    return scheme->made - before - 1;
  };
  {
    const at::NoGradGuard no_grad;
    EXPECT_EQ(made(), 1);
    EXPECT_EQ(made(), 0);
    at::Tensor parameter = scheme->named_parameters()[changed];
    parameter.mul_(-1.5);
    EXPECT_EQ(made(), 1);
    EXPECT_EQ(made(), 0);
    parameter.set_data(parameter.detach() * 0.5);
    EXPECT_EQ(made(), 1);
    scheme->to(at::kBFloat16);
    scheme->to(at::kFloat);
    EXPECT_EQ(made(), 1);
    EXPECT_EQ(made(), 0);
    decoding.cache.truncate(0);
    decoding.at = 0;
    EXPECT_EQ(made(), 1);
    KeyValueCache copy = decoding.cache;
    parameter.mul_(2.0);
    EXPECT_EQ(made(), 1);
    decoding.layer->forward(decoding.X.narrow(1, 1, 1), decoding.X.narrow(1, 1, 1), decoding.X.narrow(1, 1, 1), {}, &copy);
    EXPECT_EQ(made(), 0);
  }
  for (const at::Tensor& parameter : decoding.layer->parameters()) parameter.requires_grad_(false);
  EXPECT_EQ(made(), 1);  // gradients are recorded, though none of these needs any
  EXPECT_EQ(made(), 1);
}

TEST(CachedAttentionTest, TablesAreComputedOnceWhileNoParameterChanges) {
  at::manual_seed(11);
  ExpectTablesMadeOnce(std::make_shared<Counting<DebertaImpl>>(2, 4, 12), "key_projection.weight");
  ExpectTablesMadeOnce(std::make_shared<Counting<TransformerXLImpl>>(2, 4, 12), "projection");
}

TEST(CachedAttentionTest, TablesOfAWindowAreComputedOnce) {
  const auto scheme = std::make_shared<Counting<SwinV2BiasImpl>>(2, WindowShape(3), 6);
  MultiHeadAttention layer(MultiHeadAttentionOptions(8, 2).position(scheme));
  const at::NoGradGuard no_grad;
  KeyValueCache cache;
  const at::Tensor X = at::randn({2, 9, 8});
  layer->append(X, X, cache);
  const at::Tensor expected = layer->forward(X, X, X);
  const int before = scheme->made;
  for (int round = 0; round < 3; ++round) EXPECT_TRUE(at::allclose(layer->attend(X, cache), expected, 0, 1e-6));
  EXPECT_EQ(scheme->made - before, 1);
  scheme->second_weight.mul_(-1.0);
  EXPECT_TRUE(at::allclose(layer->attend(X, cache), layer->forward(X, X, X), 0, 1e-6));
}

TEST(CachedAttentionTest, ARefusedCallLeavesTheCacheAsItWas) {
  const at::NoGradGuard no_grad;
  MultiHeadAttention attention(MultiHeadAttentionOptions(8, 2));
  KeyValueCache cache;
  const at::Tensor X = at::randn({2, 3, 8});
  attention->forward(X, X, X, {}, &cache);
  ExpectRefused([&] { attention(X, X, X, at::tensor(std::vector<int64_t>{1}), &cache); }, "valid_lens: expected shape [2]");
  ExpectRefused([&] { attention->forward(X, at::randn({1, 3, 8}), at::randn({1, 3, 8}), {}, &cache); }, "a batch of 2");
  ExpectRefused([&] { attention->forward(X, X, X, {}, &cache, {{}, at::arange(3)}); }, "key_positions");
  EXPECT_EQ(cache.length(), 3);
}

// A call that gives positions and is refused does not ask for them in later ones.
TEST(CachedAttentionTest, ARefusedCallLeavesThePositionsAsTheyWere) {
  const at::NoGradGuard no_grad;
  Rotary rotary(4);
  MultiHeadAttention attention(MultiHeadAttentionOptions(8, 2).position(rotary).causal(Causal::kBottomRight));
  KeyValueCache cache, fresh;
  const at::Tensor X = at::randn({2, 3, 8});
  for (KeyValueCache* one : {&cache, &fresh}) attention->forward(X, X, X, {}, one);
  AttentionMasks wrong;
  wrong.mask = at::ones({5, 5}, at::kBool);
  ExpectRefused([&] { attention->forward(X, X, X, {}, &cache, {{}, at::arange(6)}, wrong); }, "mask");
  EXPECT_TRUE(at::equal(attention->forward(X, X, X, {}, &cache), attention->forward(X, X, X, {}, &fresh)));
}

TEST(EncoderStepTest, EqualsTheWholePass) {
  const at::NoGradGuard no_grad;
  for (const std::string& scheme : PositionSchemeNames()) {
    for (const Norm norm : {Norm::kPre, Norm::kPost}) {
      PositionOptions position;
      position.scheme = ParsePositionScheme(scheme);
      position.max_distance = 5;
      position.buckets = 8;
      AttentionEncoder encoder(EncoderOptions(8).layers(2).heads(2).ffn_width(12).causal(true).norm(norm).position(position));
      encoder->to(at::kDouble);
      encoder->eval();
      Stir(*encoder);
      ASSERT_TRUE(encoder->CanStep());
      const at::Tensor X = at::randn({2, 7, 8}, at::kDouble);
      LayerCaches caches(2);
      const at::Tensor chunked = at::cat({encoder->step(X.slice(1, 0, 3), caches), encoder->step(X.slice(1, 3, 4), caches),
                                          encoder->step(X.slice(1, 4, 7), caches)},
                                         1);
      EXPECT_TRUE(at::allclose(chunked, encoder(X), 0, 1e-12)) << scheme;
      caches.truncate(4);
      EXPECT_TRUE(at::allclose(encoder->step(X.slice(1, 4, 7), caches), chunked.slice(1, 4, 7), 0, 1e-12));
    }
  }
}

TEST(EncoderStepTest, IsRefusedWhereLaterStepsCount) {
  const at::NoGradGuard no_grad;
  LayerCaches caches(2);
  const at::Tensor X = at::randn({1, 3, 8});
  AttentionEncoder both_ways(EncoderOptions(8).heads(2));
  EXPECT_FALSE(both_ways->CanStep());
  ExpectRefused([&] { both_ways->step(X, caches); }, "causal");
  ExpectRefused([&] { RecurrentEncoder(EncoderOptions(8).causal(true))->step(X, caches); }, "causal");
  LayerCaches three(3);
  ExpectRefused([&] { AttentionEncoder(EncoderOptions(8).heads(2).causal(true))->step(X, three); }, "2 layers, got 3");
}

}  // namespace
}  // namespace heed::nn
