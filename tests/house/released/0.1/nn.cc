// A program written for the LibTorch room of version 0.1.0: every public name of <heed/nn.h> as a user has it, with the
// argument lists, options, enumerators, names of parameters and defaults of that release, and a few results. It compiles and
// runs with the installed package of today.
//
// Whoever finds this file in the way is breaking programs of users. It is edited only together with a line under "Changed" or
// "Removed" of a new minor version in CHANGELOG.md; docs/compatibility.md says what may change when.
#include <heed/nn.h>

#include <ATen/ATen.h>
#include <torch/nn/modules/container/any.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace {

namespace nn = heed::nn;
using at::Tensor;

int faults = 0;

void Check(bool holds, const char* what) {
  if (holds) return;
  std::printf("nn of 0.1.0: %s\n", what);
  ++faults;
}

template <class F>
bool Refuses(F&& call) {
  try {
    call();
  } catch (const heed::InvalidArgument&) {
    return true;
  }
  return false;
}

bool Has(const Tensor& tensor, at::IntArrayRef sizes) { return tensor.defined() && tensor.sizes() == sizes; }

std::vector<std::string> Names(const torch::nn::Module& module) {
  std::vector<std::string> names;
  for (const auto& parameter : module.named_parameters()) names.push_back(parameter.key());
  return names;
}

// A scheme of the user's own.
struct Forwards : nn::AttentionPosition {
  nn::AttentionTensors tensors() const override {
    nn::AttentionTensors tensors;
    tensors.slopes = at::ones({2});
    return tensors;
  }
  bool symmetric() const override { return false; }
  bool rotates() const override { return true; }
  std::pair<Tensor, Tensor> rotate(const Tensor& query, const Tensor& key, const nn::TokenPositions& query_positions,
                                   const nn::TokenPositions&) const override {
    Check(std::holds_alternative<int64_t>(query_positions), "TokenPositions");
    return {query, key};
  }
};

// An encoder of the user's own.
struct Sum : nn::SequenceEncoder {
  Tensor forward(const Tensor& X, const Tensor& /*valid_lens*/ = {}, int64_t offset = 0) override {
    return X.cumsum(1) + offset;
  }
  bool CanStep() const override { return true; }
  Tensor step(const Tensor& X, nn::LayerCaches& caches) override { return X + static_cast<double>(caches.size()); }
};

void UseOptions() {
  nn::AttentionOptions options;
  Check(!options.scale() && options.causal() == heed::Causal::kNone && !options.window().present(), "defaults");
  Check(!options.query_offset() && !options.key_offset() && options.symmetric() && !options.position(),
        "defaults of positions");
  Check(!options.softcap() && options.dropout() == 0.0 && !options.seed() && options.batch_offset() == 0,
        "defaults of dropout");
  Check(options.empty_row() == heed::EmptyRow::kZero && !options.return_weights() && !options.return_statistics(),
        "defaults, rest");
  Check(!options.weights_of_heads().defined() && !options.weights_of_rows().defined(), "defaults of weights");
  for (Tensor* tensor : options.tensors().All()) Check(!tensor->defined(), "AttentionTensors");
  static_assert(nn::AttentionTensors::kCount >= 14 && nn::AttentionTensors::kDifferentiable >= 6);

  const Tensor none;
  options.scale(1.0).causal(true).causal(heed::Causal::kTopLeft).causal(false).window(-1, -1).query_lengths(none);
  options.key_lengths(none).prefix_lengths(none).query_offset(0).key_offset(0).query_positions(none).key_positions(none);
  options.packed(none, none).mask(none).bias(none).relative_bias(none).slopes(none).slopes(none, true).content(none, none);
  options.content(none, none, none)
      .position(std::make_shared<Forwards>())
      .position(nn::Alibi(2))
      .position(nullptr)
      .softcap(50.0);
  options.dropout(0.0).seed(1).batch_offset(0).empty_row(heed::EmptyRow::kUniform).return_weights(true);
  options.return_weights_of(none).return_weights_of(none, none).return_statistics(true);
  static_assert(nn::HoldsPosition<nn::Alibi> && nn::HoldsPosition<nn::Rotary>);

  const Tensor q = at::zeros({1, 2, 3, 4}), v = at::ones({1, 2, 3, 4});
  const nn::AttentionOutput out = nn::attention(q, q, v, options);
  Check(at::allclose(out.output, v) && at::allclose(out.lse, at::full({1, 2, 3}, std::log(3.0))), "attention");
  Check(Has(out.weights, {1, 2, 3, 3}) && Has(out.statistics, {3, 1, 2, 3}), "weights and statistics");
  Check(Has(nn::attention(q, q, v).output, {1, 2, 3, 4}), "attention without options");
}

void UseEveryTensor() {
  const Tensor q = at::randn({1, 2, 3, 4}).requires_grad_(), table = at::zeros({2, 5}).requires_grad_();
  const Tensor vectors = at::zeros({5, 4}).requires_grad_(), bias = at::zeros({3, 3}).requires_grad_();
  nn::AttentionOptions options;
  options.query_lengths(at::tensor({int64_t{3}})).key_lengths(at::tensor({int64_t{3}}));
  options.query_positions(at::arange(3)).key_positions(at::arange(3)).mask(at::ones({3, 3}, at::kBool)).bias(bias);
  options.relative_bias(table)
      .slopes(at::ones({2}), false)
      .content(vectors, vectors, vectors)
      .causal(true)
      .dropout(0.25)
      .seed(3);
  const nn::AttentionOutput out = nn::attention(q, q, q, options);
  (out.output.sum() + out.lse.sum()).backward();
  Check(q.grad().defined() && table.grad().defined() && vectors.grad().defined() && bias.grad().defined(), "gradients");
  const auto prefix = nn::AttentionOptions().causal(true).prefix_lengths(at::tensor({int64_t{3}}));
  Check(at::allclose(nn::attention(q, q, q, prefix).output, nn::attention(q, q, q).output), "prefix_lengths");
  const Tensor starts = at::tensor({int64_t{0}, int64_t{1}, int64_t{3}});
  const Tensor packed = nn::attention(q, q, q, nn::AttentionOptions().packed(starts, starts)).output;
  Check(at::allclose(packed.select(2, 0), q.select(2, 0)), "packed");
  const auto chosen = nn::AttentionOptions().return_weights_of(at::tensor({int64_t{1}}), at::tensor({int64_t{2}}));
  Check(Has(nn::attention(q, q, q, chosen).weights, {1, 1, 1, 3}), "return_weights_of");
  Check(Refuses([&] { nn::attention(q, q, at::zeros({1, 2, 4, 4})); }), "InvalidArgument");
}

void UseCaches() {
  nn::KeyValueCache cache, roomy(8);
  const Tensor x = at::randn({2, 1, 3, 4});
  cache.append(x, x);
  cache.truncate(2);
  cache.reorder(at::tensor({int64_t{1}, int64_t{1}}));
  Check(cache.length() == 2 && at::equal(cache.keys()[0], x[1].narrow(1, 0, 2)) && Has(cache.values(), {2, 1, 2, 4}),
        "KeyValueCache");
  nn::LayerCaches caches(2), more(1, 8);
  for (std::size_t layer = 0; layer < caches.size(); ++layer) caches[layer].append(x, x);
  caches.reorder(at::tensor({int64_t{0}}));
  caches.truncate(1);
  Check(caches.length() == 1 && more.length() == 0 && roomy.length() == 0, "LayerCaches");
}

void UseMultiHeadAttention() {
  nn::MultiHeadAttentionOptions options(8, 2);
  Check(options.dropout() == 0.0 && !options.bias() && options.kv_heads() == 0 && options.query_size() == 0, "its options");
  Check(options.key_size() == 0 && options.value_size() == 0 && options.causal() == heed::Causal::kNone, "its options");
  Check(!options.window().present() && !options.scale() && !options.softcap() && !options.keep_attention_weights(),
        "its options");
  Check(options.position().scheme == nn::PositionScheme::kNone && !options.position_module(), "its position");
  options.dropout(0.1).bias(true).kv_heads(1).query_size(6).key_size(5).value_size(4).causal(heed::Causal::kBottomRight);
  options.window(heed::Window{5, 0}).window(5, 0).scale(0.5).softcap(30.0).empty_row(heed::EmptyRow::kUniform);
  options.keep_attention_weights(true).position(nn::PositionOptions{.scheme = nn::PositionScheme::kAlibi});
  options.position(nn::Alibi(2)).position(std::shared_ptr<nn::AttentionPosition>(std::make_shared<nn::AlibiImpl>(2)));
  Check(options.num_hiddens() == 8 && options.num_heads() == 2 && options.empty_row() == heed::EmptyRow::kUniform,
        "its getters");
  nn::MultiHeadAttention attention(options);
  attention->eval();
  int seen = 0;
  attention->observer = [&](const Tensor& query, const Tensor& key, const Tensor& value, const nn::AttentionOptions& call) {
    seen += Has(query, {2, 2, 3, 4}) && Has(key, {2, 1, 3, 4}) && Has(value, {2, 1, 3, 4}) && call.scale() == 0.5;
  };
  const Tensor Q = at::randn({2, 3, 6}), K = at::randn({2, 3, 5}), V = at::randn({2, 3, 4});
  const at::NoGradGuard no_gradients;
  const Tensor whole = attention->forward(Q, K, V);
  Check(Has(attention->attention_weights(), {4, 3, 3}) && attention->position && seen == 1, "observer, weights, position");
  nn::KeyValueCache cache;
  const Tensor first = attention->forward(Q.narrow(1, 0, 2), K.narrow(1, 0, 2), V.narrow(1, 0, 2), {}, &cache);
  const nn::StepPositions places{at::arange(2, 3), at::arange(3)};
  const Tensor last = attention->forward(Q.narrow(1, 2, 1), K.narrow(1, 2, 1), V.narrow(1, 2, 1), {}, &cache, places);
  Check(at::allclose(at::cat({first, last}, 1), whole, 1e-4, 1e-5), "a cache");
  nn::KeyValueCache parts;
  attention->append(K, V, parts);
  Check(at::allclose(attention->attend(Q, parts), whole, 1e-4, 1e-5), "append and attend");
  Check(Has(attention->attend(Q, parts, at::tensor({3, 2}), {at::arange(3), {}}), {2, 3, 8}), "attend");
  const std::vector<std::string> names{"W_q.weight", "W_q.bias", "W_k.weight", "W_k.bias",
                                       "W_v.weight", "W_v.bias", "W_o.weight", "W_o.bias"};
  Check(Names(*attention) == names && Has(attention->W_k->weight, {4, 5}), "names of parameters");
  Check(Has(attention->W_q->weight, {8, 6}) && Has(attention->W_v->weight, {4, 4}) && Has(attention->W_o->bias, {8}), "shapes");
  const auto copy = std::dynamic_pointer_cast<nn::MultiHeadAttentionImpl>(attention->clone());
  Check(copy != nullptr && copy->options.kv_heads() == 1, "clone");

  const Tensor X = at::randn({2, 3, 8});
  nn::MultiHeadAttention newer(8, 2, 0.0), with_bias(8, 2, 0.0, true), older(8, 8, 8, 8, 2, 0.0),
      older_bias(8, 8, 8, 8, 2, 0.0, true);
  Check(Has(newer->forward(X, X, X, at::tensor({3, 2})), {2, 3, 8}) && Has(with_bias->forward(X, X, X), {2, 3, 8}),
        "d2l 1.0.3");
  Check(Has(older->forward(X, X, X), {2, 3, 8}) && Has(older_bias->forward(X, X, X), {2, 3, 8}), "d2l 0.17.6");
  torch::nn::AnyModule any(newer);
  Check(Has(any.forward(X, X, X), {2, 3, 8}), "AnyModule");
}

void UseInputEncodings() {
  const Tensor X = at::zeros({1, 2, 4});
  nn::PositionalEncoding encoding(4, 0.0), all(4, 0.0, 2, nn::LengthPolicy::kExtend, heed::SinusoidalOptions{});
  Check(Has(encoding->P(), {1, 1000, 4}) && at::allclose(encoding->forward(X), encoding->P().narrow(1, 0, 2)),
        "PositionalEncoding");
  Check(at::allclose(all->forward(X, 5), encoding->P().narrow(1, 5, 2)), "LengthPolicy::kExtend");
  encoding->to(at::kDouble);
  encoding->to(at::Device(at::kCPU));
  encoding->to(at::Device(at::kCPU), at::kFloat);
  nn::LearnedPositions learned(4, 0.0), clamped(4, 0.0, 2, nn::LengthPolicy::kClamp);
  Check(Has(learned->weight, {1000, 4}) && Names(*learned) == std::vector<std::string>{"weight"}, "LearnedPositions");
  Check(at::allclose(clamped->forward(X, 5)[0][0], clamped->weight[1]), "LengthPolicy::kClamp");
  nn::PositionalEncoding strict(4, 0.0, 1, nn::LengthPolicy::kError);
  Check(Refuses([&] { strict->forward(X); }), "LengthPolicy::kError");
  torch::nn::Sequential both(nn::PositionalEncoding(4, 0.0), nn::LearnedPositions(4, 0.0));
  Check(Has(both->forward(X), {1, 2, 4}), "Sequential");
}

void UseSchemes() {
  const Tensor q = at::randn({1, 2, 3, 4});
  const nn::Alibi alibi(2), trained(2, false, true);
  const nn::RelativeBias relative(2, 3);
  const nn::T5Bias t5(2), small(2, heed::T5Options{.buckets = 8, .max_distance = 16});
  const nn::Shaw shaw(4, 3), both(4, 3, true, true, 4), keys(4, 3, false);
  const nn::Rotary rotary(4), half(4, heed::RotaryOptions{.rotary_dim = 2}, heed::RotaryLayout::kInterleaved);
  Check(Has(alibi->slopes, {2}) && alibi->symmetric() && !trained->symmetric() && Names(*trained).size() == 1, "Alibi");
  Check(Has(relative->relative_bias, {2, 7}) && Has(relative->tensors().relative_bias, {2, 7}), "RelativeBias");
  Check(Has(t5->weight, {32, 2}) && Has(t5->table(), {2, 257}) && Has(small->weight, {8, 2}), "T5Bias");
  Check(Has(shaw->keys, {7, 4}) && Has(shaw->values, {7, 4}) && !shaw->queries.defined() && !keys->values.defined(), "Shaw");
  Check(Has(both->queries, {7, 4}) && Has(both->tensors().content_queries, {7, 4}), "Shaw's queries");
  Check(rotary->rotates() && !alibi->rotates() &&
            at::allclose(rotary->rotate(q, q, int64_t{0}, at::arange(3)).first.select(2, 0), q.select(2, 0)),
        "Rotary");
  nn::AttentionOptions options;
  for (const auto& with : {options.position(alibi), options.position(relative), options.position(t5), options.position(shaw),
                           options.position(rotary), options.position(half), options.position(std::make_shared<Forwards>())}) {
    Check(Has(nn::attention(q, q, q, with).output, {1, 2, 3, 4}), "a scheme");
  }

  const std::vector<std::pair<const char*, nn::PositionScheme>> schemes{
      {"none", nn::PositionScheme::kNone},       {"sinusoidal", nn::PositionScheme::kSinusoidal},
      {"learned", nn::PositionScheme::kLearned}, {"rotary", nn::PositionScheme::kRotary},
      {"alibi", nn::PositionScheme::kAlibi},     {"relative", nn::PositionScheme::kRelativeBias},
      {"t5", nn::PositionScheme::kT5},           {"shaw", nn::PositionScheme::kShaw}};
  const std::vector<std::string> names = nn::PositionSchemeNames();
  nn::PositionOptions made;
  Check(made.scheme == nn::PositionScheme::kNone && made.max_len == 1000 && made.max_distance == 128, "PositionOptions");
  Check(made.length_policy == nn::LengthPolicy::kError && made.buckets == 32 && made.rotary.rotary_dim == 0, "PositionOptions");
  Check(made.rotary_layout == heed::RotaryLayout::kHalf, "PositionOptions");
  for (const auto& [name, scheme] : schemes) {
    Check(std::find(names.begin(), names.end(), name) != names.end(), name);
    Check(nn::ParsePositionScheme(name) == scheme && nn::ToString(scheme) == name, name);
    made.scheme = scheme;
    if (nn::AddsToInput(scheme)) continue;
    const std::shared_ptr<nn::AttentionPosition> position = nn::MakeAttentionPosition(made, 2, 4, /*causal=*/true);
    Check((position == nullptr) == (scheme == nn::PositionScheme::kNone), name);
  }
}

void UseRotaryAndDropout() {
  const heed::RotaryFrequencies frequencies = heed::ComputeRotaryFrequencies({.rotary_dim = 4});
  const nn::RotaryTables tables = nn::rotary_tables(frequencies, at::arange(3), at::kFloat);
  const Tensor x = at::randn({1, 2, 3, 4});
  const heed::Rotation back{.layout = heed::RotaryLayout::kHalf, .inverse = true};
  const Tensor turned = nn::apply_rotary(x, tables.cos, tables.sin);
  Check(at::allclose(nn::apply_rotary(turned, tables.cos, tables.sin, back), x, 1e-4, 1e-5), "apply_rotary");
  const Tensor listed = nn::apply_rotary(x, tables.cos, tables.sin, {}, at::arange(3).unsqueeze(0));
  Check(at::allclose(listed, turned), "apply_rotary's positions");

  const Tensor X = at::ones({1000});
  nn::Dropout half, more(0.75);
  Check(at::equal(nn::drop_elements(X, 0.5, false), X) && nn::drop_elements(X, 0.5, true).eq(0).any().item<bool>(),
        "drop_elements");
  Check(more->forward(X).max().item<float>() == 4 && half->forward(X).max().item<float>() == 2, "Dropout");
  std::ostringstream text;
  more->pretty_print(text);
  Check(!text.str().empty(), "pretty_print");
}

void UseTransformerEncoder() {
  nn::TransformerEncoderBlockOptions options(8, 16, 2);
  Check(options.dropout() == 0.0 && !options.bias() && options.norm() == nn::Norm::kPost, "block");
  Check(options.activation() == nn::Activation::kRelu && options.layer_norm_eps() == 1e-5, "block");
  Check(options.causal() == heed::Causal::kNone && options.empty_row() == heed::EmptyRow::kZero, "block");
  Check(options.position().scheme == nn::PositionScheme::kNone && !options.keep_attention_weights(), "block");
  options.num_hiddens(8).ffn_num_hiddens(16).num_heads(2).dropout(0.0).bias(true).norm(nn::Norm::kPre);
  options.activation(nn::Activation::kGelu).layer_norm_eps(1e-6).causal(heed::Causal::kBottomRight);
  options.empty_row(heed::EmptyRow::kZero).position({.scheme = nn::PositionScheme::kRotary}).keep_attention_weights(true);
  const at::NoGradGuard no_gradients;
  nn::TransformerEncoderBlock block(options), book(8, 16, 2, 0.0), book_bias(8, 16, 2, 0.0, true);
  const Tensor X = at::randn({2, 3, 8}), tokens = at::zeros({2, 3}, at::kLong), lens = at::tensor({3, 2});
  nn::KeyValueCache cache;
  Check(Has(block->forward(X, {}, &cache), {2, 3, 8}) && cache.length() == 3 && Has(book->forward(X, lens), {2, 3, 8}),
        "block");
  Check(block->attention->options.num_heads() == 2 && block->ffn->dense1->options.out_features() == 16, "submodules");
  Check(Has(block->addnorm1->ln->weight, {8}) && Has(block->addnorm2->ln->weight, {8}) && block->options.bias(), "submodules");
  torch::nn::AnyModule any(book_bias);
  Check(Has(any.forward(X), {2, 3, 8}), "AnyModule of a block");

  nn::TransformerEncoder encoder(10, 2, options), limited(10, 1, options, 5), d2l(10, 8, 16, 2, 1, 0.0),
      bias(10, 8, 16, 2, 1, 0.0, true);
  Check(Has(encoder->forward(tokens), {2, 3, 8}) && Has(d2l->forward(tokens, lens), {2, 3, 8}), "TransformerEncoder");
  Check(encoder->attention_weights().size() == 2 && encoder->blks->size() == 2 && !encoder->final_norm.is_empty(),
        "its members");
  Check(Has(encoder->embedding->weight, {10, 8}) && Has(encoder->pos_encoding->P(), {1, 1000, 8}), "its members");
  Check(encoder->named_parameters().contains("blks.block1.attention.W_q.weight"), "names of an encoder");
  Check(encoder->named_parameters().contains("blks.block0.addnorm1.ln.weight"), "names of an encoder");
  Check(encoder->named_parameters().contains("blks.block0.ffn.dense2.bias"), "names of an encoder");

  nn::AddNorm add_norm(8, 0.0, 1e-5);
  nn::PositionWiseFFN ffn(8, 16, nn::Activation::kRelu), wider(8, 16, nn::Activation::kGelu, 4);
  const auto sublayer = [&](const Tensor& x) { return ffn->forward(x); };
  Check(Has(add_norm->forward(X, X), {2, 3, 8}) && Has(wider->forward(at::ones({1, 4})), {1, 8}), "AddNorm, PositionWiseFFN");
  Check(Has(add_norm->Residual(nn::Norm::kPost, X, sublayer), {2, 3, 8}), "Residual");
  Check(Has(add_norm->dropout->forward(X), {2, 3, 8}) && Has(wider->dense2->weight, {8, 16}), "their members");
  Check(at::allclose(nn::Activate(X, nn::Activation::kRelu), at::relu(X)), "Activate");
}

void UseTransformerDecoder() {
  nn::TransformerDecoderBlockOptions options(8, 16, 2);
  Check(options.encoder_size() == 0 && options.dropout() == 0.0 && !options.bias() && options.norm() == nn::Norm::kPost,
        "decoder");
  Check(options.activation() == nn::Activation::kRelu && options.layer_norm_eps() == 1e-5, "decoder");
  options.num_hiddens(8).ffn_num_hiddens(16).num_heads(2).encoder_size(6).dropout(0.0).bias(true).norm(nn::Norm::kPre);
  options.activation(nn::Activation::kGelu).layer_norm_eps(1e-6).empty_row(heed::EmptyRow::kZero);
  options.position({.scheme = nn::PositionScheme::kAlibi}).keep_attention_weights(true);
  const at::NoGradGuard no_gradients;
  const Tensor X = at::randn({2, 3, 8}), memory = at::randn({2, 4, 6}), tokens = at::zeros({2, 3}, at::kLong);
  const Tensor memory_lens = at::tensor({4, 2}), lens = at::tensor({3, 2});
  nn::TransformerDecoderBlock block(options), book(8, 16, 2, 0.0), bias(8, 16, 2, 0.0, true);
  nn::DecoderBlockCache block_cache;
  Check(Has(block->forward(X, memory, memory_lens, lens, &block_cache), {2, 3, 8}), "TransformerDecoderBlock");
  Check(block_cache.self.length() == 3 && block_cache.cross.length() == 4, "DecoderBlockCache");
  Check(Has(book->forward(X, X), {2, 3, 8}) && Has(bias->forward(X, X, lens), {2, 3, 8}), "d2l's block");
  Check(block->attention1->options.num_heads() == 2 && block->attention2->options.key_size() == 6, "its submodules");
  Check(Has(block->addnorm1->ln->weight, {8}) && Has(block->addnorm2->ln->weight, {8}), "its submodules");
  Check(Has(block->addnorm3->ln->weight, {8}) && Has(block->ffn->dense1->weight, {16, 8}), "its submodules");
  Check(block->options.encoder_size() == 6, "its options");

  nn::TransformerDecoder decoder(10, 2, options), limited(10, 1, options, 5), d2l(10, 8, 16, 2, 1, 0.0),
      d2l_bias(10, 8, 16, 2, 1, 0.0, true);
  nn::DecoderCache cache;
  Check(Has(decoder->forward(tokens, memory, memory_lens, {}, &cache), {2, 3, 10}) && cache.length() == 3,
        "TransformerDecoder");
  cache.truncate(2);
  cache.reorder(at::tensor({int64_t{1}, int64_t{0}}));
  Check(cache.length() == 2 && cache.blocks.size() == 2, "DecoderCache");
  Check(decoder->attention_weights().size() == 4 && decoder->blks->size() == 2 && !decoder->final_norm.is_empty(),
        "its members");
  Check(Has(decoder->embedding->weight, {10, 8}) && Has(decoder->dense->weight, {10, 8}), "its members");
  Check(Has(decoder->pos_encoding->P(), {1, 1000, 8}) && Has(d2l->forward(tokens, X), {2, 3, 10}), "its members");
}

void UseEncoders() {
  nn::EncoderOptions options(8);
  Check(options.layers() == 2 && options.ffn_width() == 0 && options.dropout() == 0.0 && !options.causal(), "EncoderOptions");
  Check(options.norm() == nn::Norm::kPre && options.activation() == nn::Activation::kGelu && !options.bias(), "EncoderOptions");
  Check(options.layer_norm_eps() == 1e-5 && options.heads() == 4 && !options.keep_attention_weights(), "EncoderOptions");
  Check(options.kernel() == 3 && !options.dilated() && options.cell() == "gru", "EncoderOptions");
  options.width(8).layers(1).ffn_width(16).dropout(0.0).causal(true).norm(nn::Norm::kPre).activation(nn::Activation::kRelu);
  options.layer_norm_eps(1e-6)
      .bias(true)
      .heads(2)
      .position({.scheme = nn::PositionScheme::kLearned})
      .keep_attention_weights(true);
  const at::NoGradGuard no_gradients;
  const Tensor X = at::randn({2, 3, 8}), lens = at::tensor({int64_t{3}, int64_t{2}});
  const std::vector<std::string> names = nn::EncoderNames();
  for (const char* name : {"attention", "convolution", "dilated", "rnn", "gru", "lstm", "gru-attention", "decomposable"}) {
    Check(std::find(names.begin(), names.end(), name) != names.end(), name);
    nn::EncoderOptions chosen = options;
    if (std::string(name) != "attention") chosen.position({});
    const std::shared_ptr<nn::SequenceEncoder> encoder = nn::MakeEncoder(name, chosen);
    Check(Has(encoder->forward(X, lens, 1), {2, 3, 8}) && Has(encoder->forward(X), {2, 3, 8}), name);
    nn::LayerCaches caches(1);
    if (encoder->CanStep()) Check(at::allclose(encoder->step(X, caches), encoder->forward(X), 1e-4, 1e-5), name);
  }
  Check(nn::HasHeads("attention") && !nn::HasHeads("gru"), "HasHeads");

  nn::AttentionEncoder attention(options);
  attention->forward(X);
  Check(attention->attention_weights().size() == 1 && attention->blocks.size() == 1 && attention->options.heads() == 2,
        "attention");
  Check(attention->sinusoidal.is_empty() && !attention->learned.is_empty() && !attention->final_norm.is_empty(), "attention");
  options.position({});
  nn::ConvolutionEncoder convolution(nn::EncoderOptions(options).kernel(3).dilated(true));
  nn::RecurrentEncoder recurrent(nn::EncoderOptions(options).cell("lstm"));
  nn::RecurrentAttentionEncoder mixed(options);
  nn::DecomposableEncoder decomposable(options);
  Check(Has(convolution->convolutions.at(0)->weight, {8, 8, 3}) && recurrent->cells.size() == 1, "encoders");
  Check(mixed->cells.size() == 1 && mixed->attentions.size() == 1 && decomposable->attentions.size() == 1, "encoders");
  const auto members = [](auto& encoder) {
    Check(encoder->options.width() == 8 && encoder->norms.size() == 1 && encoder->ffn_norms.size() == 1, "members of encoders");
    Check(encoder->ffns.size() == 1 && !encoder->final_norm.is_empty(), "members of encoders");
  };
  members(convolution), members(recurrent), members(mixed), members(decomposable);

  nn::DecomposableAttentionOptions aligned(8, 2);
  Check(aligned.max_distance() == 10 && aligned.activation() == nn::Activation::kRelu && aligned.dropout() == 0.0,
        "its options");
  aligned.width(8).heads(2).max_distance(4).activation(nn::Activation::kGelu).dropout(0.0).causal(heed::Causal::kBottomRight);
  nn::DecomposableAttention layer(aligned);
  nn::KeyValueCache cache;
  Check(Has(layer->forward(X, {}, &cache), {2, 3, 8}) && Has(layer->forward(X, lens), {2, 3, 8}), "DecomposableAttention");
  Check(Has(layer->position->relative_bias, {2, 9}) && layer->options.heads() == 2, "its members");
  Check(Has(layer->attend->dense1->weight, {8, 8}) && Has(layer->compare->dense1->weight, {8, 16}), "its members");

  Sum sum;
  nn::SequenceEncoder& own = sum;
  nn::LayerCaches caches(1);
  Check(at::equal(own.forward(X), X.cumsum(1)) && own.CanStep() && Has(own.step(X, caches), {2, 3, 8}),
        "an encoder of one's own");
}

void UseFiles(const std::string& program) {
  const std::string path = program + ".safetensors", weights = program + ".weights.safetensors";
  nn::WriteSafetensors(path, {{"a", at::ones({2})}});
  nn::WriteSafetensors(path, {{"a", at::ones({2})}}, {{"format", "pt"}});
  nn::SafetensorsLimits limits;
  Check(limits.header_bytes == int64_t{16} << 20 && limits.tensors == 65536 && limits.rank == 8, "SafetensorsLimits");
  const nn::Safetensors file = nn::ReadSafetensors(path, limits);
  Check(at::equal(file.tensors.at("a"), at::ones({2})) && file.metadata.at("format") == "pt", "ReadSafetensors");
  Check(nn::ReadSafetensors(path).tensors.size() == 1, "ReadSafetensors");
  bool refused = false;
  try {
    nn::ReadSafetensors(program + ".nowhere");
  } catch (const heed::FileError&) {
    refused = true;
  }
  Check(refused, "FileError");

  nn::MultiHeadAttention attention(8, 2, 0.0), other(8, 2, 0.0);
  const std::vector<std::pair<const char*, nn::Framework>> frameworks{{"torch", nn::Framework::kTorch},
                                                                      {"flax", nn::Framework::kFlax},
                                                                      {"keras", nn::Framework::kKeras},
                                                                      {"paddle", nn::Framework::kPaddle},
                                                                      {"mxnet", nn::Framework::kMxnet}};
  for (const auto& [name, framework] : frameworks) {
    Check(nn::ParseFramework(name) == framework, name);
    const nn::TensorMap tensors = nn::export_weights(*attention, framework);
    other = nn::MultiHeadAttention(8, 2, 0.0);
    nn::load_weights(*other, tensors, framework);
    Check(at::equal(other->W_k->weight, attention->W_k->weight), name);
    nn::save_weights(*attention, weights, framework);
    other = nn::MultiHeadAttention(8, 2, 0.0);
    nn::load_weights(*other, weights, framework);
    Check(at::equal(other->W_o->weight, attention->W_o->weight), name);
  }
  nn::save_weights(*attention, weights);
  nn::load_weights(*other, weights);
  nn::load_weights(*other, nn::export_weights(*attention));
  std::filesystem::remove(path);
  std::filesystem::remove(weights);
}

// Programs that write no namespaces find one meaning for each name that is in one of them alone.
void UseBothNamespaces() {
  using namespace heed;
  using namespace heed::nn;
  MultiHeadAttention module(8, 2, 0.0);
  PositionalEncoding encoding(8, 0.0, 10, LengthPolicy::kClamp);
  TransformerEncoderBlock block(TransformerEncoderBlockOptions(8, 16, 2).norm(Norm::kPre).activation(Activation::kGelu));
  const Rotary rotary(4, RotaryOptions{}, RotaryLayout::kHalf);
  const Safetensors file;
  Check(AddsToInput(PositionScheme::kLearned) && ParseFramework("torch") == Framework::kTorch && file.tensors.empty(),
        "namespaces");
  Check(SafetensorsLimits().rank == 8 && Has(block->forward(encoding->forward(at::ones({1, 2, 8}))), {1, 2, 8}), "namespaces");
  Check(attention(at::ones({1, 1, 1, 4}), at::ones({1, 1, 1, 4}), at::ones({1, 1, 1, 4}), AttentionOptions().position(rotary))
                .lse.defined() &&
            module,
        "namespaces");
}

}  // namespace

int main(int, char** arguments) {
  UseOptions();
  UseEveryTensor();
  UseCaches();
  UseMultiHeadAttention();
  UseInputEncodings();
  UseSchemes();
  UseRotaryAndDropout();
  UseTransformerEncoder();
  UseTransformerDecoder();
  UseEncoders();
  UseFiles(arguments[0]);
  UseBothNamespaces();
  return faults;
}
