#include "heed/multi_head_attention.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "attention_scheme.h"
#include "batch_attention.h"
#include "heed/error.h"
#include "heed/portable_math.h"
#include "heed/shape_text.h"
#include "heed/thread_workspace.h"
#include "parameter.h"

namespace heed {
namespace {

[[noreturn]] void Refuse(const std::string& what) { throw InvalidArgument("MultiHeadAttention: " + what); }

MultiHeadAttentionOptions Resolved(MultiHeadAttentionOptions options) {
  for (int64_t* size : {&options.query_size, &options.key_size, &options.value_size}) {
    if (*size == 0) *size = options.num_hiddens;
  }
  if (options.kv_heads == 0) options.kv_heads = options.num_heads;
  const int64_t width = options.num_hiddens, heads = options.num_heads;
  if (options.head_dim < 0) Refuse("head_dim: expected a width, or 0, got " + std::to_string(options.head_dim));
  if (width < 1 || heads < 1 || (options.head_dim == 0 && width % heads != 0)) {
    Refuse("num_hiddens (" + std::to_string(width) + ") must be a positive multiple of num_heads (" + std::to_string(heads) +
           "), or head_dim be given for heads of another width");
  }
  if (options.head_dim == 0) options.head_dim = width / heads;
  if (options.kv_heads < 1 || heads % options.kv_heads != 0) {
    Refuse("num_heads (" + std::to_string(heads) + ") must be a multiple of kv_heads (" + std::to_string(options.kv_heads) +
           ")");
  }
  if (auto* rotary = std::get_if<RotaryPosition>(&options.position)) {
    int64_t& columns = rotary->options.rotary_dim;
    const int64_t head_dim = options.head_dim;
    if (columns == 0) columns = head_dim;
    if (columns < 2 || columns % 2 != 0 || columns > head_dim) {
      Refuse("position: rotary_dim: expected an even number in 2.." + std::to_string(head_dim) +
             " (the width of a head), got " + std::to_string(columns));
    }
    ComputeRotaryFrequencies(rotary->options);
  }
  return options;
}

void CheckInput(const char* name, const View<const float, 3>& x, int64_t width) {
  if (x.extent[2] != width || x.extent[0] < 0 || x.extent[1] < 0) {
    Refuse(std::string(name) + ": expected shape [batch, steps, " + std::to_string(width) + "], got " + ShapeText(x.extent));
  }
}

// [batch, steps, heads * head_dim] in one piece as [batch, heads, steps, head_dim].
View<float, 4> Heads(View<float, 2> rows, int64_t batch, int64_t steps, int64_t heads) {
  const int64_t width = rows.extent[1], head_dim = width / heads;
  return {rows.data, {batch, heads, steps, head_dim}, {steps * width, head_dim, width, 1}};
}

View<float, 3> ByBatch(View<float, 2> rows, int64_t batch, int64_t steps) {
  return View<float, 3>::Contiguous(rows.data, {batch, steps, rows.extent[1]});
}

// valid_lens as d2l means them, held to 0..steps.
Lengths Clamped(const Lengths& valid_lens, int64_t batch, int64_t queries, int64_t steps, ModelWorkspace& workspace) {
  const View<const int64_t, 2>& given = valid_lens.values;
  if (!given.present()) return {};
  if (given.extent[0] != batch || (given.extent[1] != 1 && given.extent[1] != queries)) {
    Refuse("valid_lens: expected shape [" + std::to_string(batch) + "] or [" + std::to_string(batch) + ", " +
           std::to_string(queries) + "], got " + ShapeText(given.extent));
  }
  const auto numbers = View<int64_t, 2>::Contiguous(workspace.Take<int64_t>(given.size()), given.extent);
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t i = 0; i < given.extent[1]; ++i) numbers(b, i) = std::clamp<int64_t>(given(b, i), 0, steps);
  }
  Lengths clamped;
  clamped.values = numbers;
  return clamped;
}

constexpr double kMostLogScale = 4.60517018598809136804;  // log(100)
constexpr float kNormEps = 1e-6f;

}  // namespace

MultiHeadAttention::MultiHeadAttention(MultiHeadAttentionOptions options)
    : options_(Resolved(std::move(options))),
      head_dim_(options_.head_dim),
      W_q_(options_.query_size, head_dim_ * options_.num_heads, options_.bias),
      W_k_(options_.key_size, head_dim_ * options_.kv_heads, options_.bias),
      W_v_(options_.value_size, head_dim_ * options_.kv_heads, options_.bias),
      W_o_(head_dim_ * options_.num_heads, options_.num_hiddens, options_.bias),
      scheme_(MakeAttentionScheme(options_)) {}

MultiHeadAttention::~MultiHeadAttention() = default;
MultiHeadAttention::MultiHeadAttention(MultiHeadAttention&&) noexcept = default;
MultiHeadAttention& MultiHeadAttention::operator=(MultiHeadAttention&&) noexcept = default;

MultiHeadAttention::MultiHeadAttention(int64_t num_hiddens, int64_t num_heads, bool bias)
    : MultiHeadAttention(MultiHeadAttentionOptions{.num_hiddens = num_hiddens, .num_heads = num_heads, .bias = bias}) {}

Parameters MultiHeadAttention::parameters() {
  Parameters own;
  own.Add("W_q", W_q_.parameters());
  own.Add("W_k", W_k_.parameters());
  own.Add("W_v", W_v_.parameters());
  own.Add("W_o", W_o_.parameters());
  own.attention.push_back({"", options_.num_heads, options_.kv_heads});
  if (scheme_) own.Add("position", scheme_->parameters());
  if (options_.query_key_norm == QueryKeyNorm::kL2) {
    own.list.push_back(KeptIn(log_scale_, "query_key_norm.log_scale", {options_.num_heads}));
  } else if (options_.query_key_norm == QueryKeyNorm::kRms) {
    own.list.push_back(KeptIn(query_weight_, "query_key_norm.query_weight", {head_dim_}));
    own.list.push_back(KeptIn(key_weight_, "query_key_norm.key_weight", {head_dim_}));
  }
  return own;
}

KeyValueCache<float> MultiHeadAttention::NewCache(int64_t batch, int64_t capacity) const {
  return {batch, options_.kv_heads, head_dim_, head_dim_, capacity};
}

Attention MultiHeadAttention::Call() const {
  Attention call;
  call.causal = options_.causal;
  call.window = options_.window;
  call.scale = options_.scale;
  call.softcap = options_.softcap;
  call.empty_row = options_.empty_row;
  if (!call.scale && options_.query_key_norm == QueryKeyNorm::kL2) call.scale = 1.0;  // it has its own
  if (!scheme_) return call;
  if (!call.scale) call.scale = scheme_->default_scale();
  scheme_->AddTo(call);
  return call;
}

struct MultiHeadAttention::Tokens {
  View<float, 4> heads;
  int64_t first;
  View<const double, 2> positions;
};

void MultiHeadAttention::Normalise(const Tokens& tokens, bool queries) const {
  const bool l2 = options_.query_key_norm == QueryKeyNorm::kL2;
  const std::vector<float>& weight = queries ? query_weight_ : key_weight_;
  if (l2 ? log_scale_.empty() : weight.empty()) Refuse("query_key_norm: its weights were not loaded");
  const View<float, 4>& heads = tokens.heads;
  const auto [batch, count, steps, width] = heads.extent;
  for (int64_t h = 0; h < count; ++h) {
    const bool scaled = l2 && queries;
    const float factor = scaled ? static_cast<float>(portable::Exp(std::min<double>(log_scale_[h], kMostLogScale))) : 1.0f;
    for (int64_t row = 0; row < batch * steps; ++row) {
      float* const x = &heads(row / steps, h, row % steps, 0);
      double squares = 0;
      for (int64_t c = 0; c < width; ++c) squares += static_cast<double>(x[c]) * x[c];
      const double length = std::sqrt(squares), mean = squares / static_cast<double>(width) + kNormEps;
      const auto by = static_cast<float>(l2 ? 1 / (length > 0 ? length : 1.0) : 1 / std::sqrt(mean));
      for (int64_t c = 0; c < width; ++c) x[c] *= by * (l2 ? factor : weight[c]);
    }
  }
}

// length: of the text, for scalings that depend on it.
void MultiHeadAttention::Turn(const Tokens& tokens, int64_t length, ModelWorkspace& workspace, Executor& executor) const {
  const SchemeRotation* rotation = scheme_ ? scheme_->rotation() : nullptr;
  if (rotation == nullptr || tokens.heads.size() == 0) return;
  const ModelWorkspace::Frame frame(workspace);
  const RotaryPosition& position = rotation->position;
  const int64_t steps = tokens.heads.extent[2], pairs = position.options.rotary_dim / 2;
  const bool listed = tokens.positions.present();
  const int64_t rows = listed ? tokens.heads.extent[0] : 1;
  const View<float, 2> cos = workspace.TakeRows(rows * steps, pairs), sin = workspace.TakeRows(rows * steps, pairs);
  const auto fill = [&](const RotaryFrequencies& frequencies) {
    if (!listed) return RotaryTable(frequencies, tokens.first, cos, sin);
    const auto list = View<const double, 1>::Contiguous(tokens.positions.data, {rows * steps});
    RotaryTable(frequencies, list, cos, sin);
  };
  rotation->fixed ? fill(*rotation->fixed) : fill(ComputeRotaryFrequencies(position.options, length));
  const auto tables = [&](View<float, 2> table) { return View<const float, 3>::Contiguous(table.data, {rows, steps, pairs}); };
  ApplyRotary(Rotation{position.layout, /*inverse=*/false}, tokens.heads, tables(cos), tables(sin), tokens.heads, executor);
}

void MultiHeadAttention::CheckInputs(View<const float, 3> queries, View<const float, 3> keys, View<const float, 3> values,
                                     View<float, 3> out, const MultiHeadCall& call) const {
  CheckInput("queries", queries, options_.query_size);
  CheckInput("keys", keys, options_.key_size);
  CheckInput("values", values, options_.value_size);
  const int64_t batch = queries.extent[0], steps = keys.extent[1];
  if (keys.extent[0] != batch || values.extent[0] != batch || values.extent[1] != steps) {
    Refuse("keys, values: expected [" + std::to_string(batch) + ", m, ...] both, got " + ShapeText(keys.extent) + " and " +
           ShapeText(values.extent));
  }
  const std::array<int64_t, 3> expected{batch, queries.extent[1], options_.num_hiddens};
  if (out.extent != expected) Refuse("out: expected shape " + ShapeText(expected) + ", got " + ShapeText(out.extent));
  const SchemeRotation* rotation = scheme_ ? scheme_->rotation() : nullptr;
  const bool by_length = rotation != nullptr && !rotation->fixed;
  if (call.positions.present()) {
    const std::array<int64_t, 2> listed{batch, queries.extent[1]};
    if (call.positions.extent != listed || steps != queries.extent[1] || call.positions.stride[0] != steps ||
        (steps > 1 && call.positions.stride[1] != 1))
      Refuse("positions: expected one for each token of self-attention, in one piece, " + ShapeText(listed) + ", got " +
             ShapeText(call.positions.extent));
    if (by_length || call.cache != nullptr)
      Refuse("positions: expected none beside a cache or rotary positions whose frequencies depend on the length of the text");
  }
  const KeyValueCache<float>* cache = call.cache;
  if (cache == nullptr) return;
  if (cache->batch() != batch) {
    Refuse("cache: expected a batch of " + std::to_string(batch) + " as queries have, got " + std::to_string(cache->batch()));
  }
  const std::array<int64_t, 4> held = cache->Keys().extent;
  if (held[1] != options_.kv_heads || held[3] != head_dim_)
    Refuse("cache: expected one of NewCache(), of " + std::to_string(options_.kv_heads) + " heads of width " +
           std::to_string(head_dim_) + ", got " + std::to_string(held[1]) + " of " + std::to_string(held[3]));
  if (by_length) {
    Refuse(
        "cache: rotary positions whose frequencies depend on the length of the text cannot be cached; give one without such "
        "a scaling, or call without a cache");
  }
}

void MultiHeadAttention::Forward(View<const float, 3> queries, View<const float, 3> keys, View<const float, 3> values,
                                 View<float, 3> out, const MultiHeadCall& given, ModelWorkspace& workspace,
                                 Executor& executor) const {
  CheckInputs(queries, keys, values, out, given);
  const ModelWorkspace::Frame frame(workspace);
  KeyValueCache<float>* const cache = given.cache;
  const int64_t batch = queries.extent[0], n = queries.extent[1], m = keys.extent[1];
  const int64_t before = cache != nullptr ? cache->length() : 0, length = before + m;
  Attention call = Call();
  call.key_lengths = Clamped(given.valid_lens, batch, n, length, workspace);
  if (given.positions.present()) call.query_positions.list = call.key_positions.list = given.positions;
  const auto projected = [&](const Linear& linear, View<const float, 3> x, int64_t steps) {
    const View<float, 2> rows = workspace.TakeRows(batch * steps, linear.out());
    linear.Forward(x, ByBatch(rows, batch, steps), executor);
    return rows;
  };
  const View<float, 2> query = projected(W_q_, queries, n), key = projected(W_k_, keys, m), value = projected(W_v_, values, m);
  const View<float, 4> q = Heads(query, batch, n, options_.num_heads), k = Heads(key, batch, m, options_.kv_heads),
                       v = Heads(value, batch, m, options_.kv_heads);
  const int64_t first_query = options_.causal == Causal::kBottomRight ? length - n : 0;
  const int64_t longest = std::max(length, first_query + n);
  const Tokens asking{q, first_query, given.positions}, asked{k, before, given.positions};
  if (options_.query_key_norm != QueryKeyNorm::kNone) Normalise(asking, true), Normalise(asked, false);
  Turn(asking, longest, workspace, executor), Turn(asked, longest, workspace, executor);
  if (const float* bias = scheme_ ? scheme_->query_bias() : nullptr) {
    for (int64_t i = 0; i < query.size(); ++i) query.data[i] += bias[i % query.extent[1]];
  }

  const View<float, 2> attended = workspace.TakeRows(batch * n, query.extent[1]);
  const View<float, 4> attended_heads = Heads(attended, batch, n, options_.num_heads);
  if (cache != nullptr) cache->Append(k, v);
  try {
    if (cache != nullptr) {
      cache->Attend(call, q, attended_heads, {}, ThreadWorkspace(), executor);
    } else {
      // Of self-attention a row's queries are as many as its keys.
      const View<const int64_t, 2>& lens = call.key_lengths.values;
      const bool own = queries.data == keys.data && n == m && lens.present() && lens.extent[1] == 1;
      ForwardBatch(call, q, k, v, attended_heads, own ? lens.data : nullptr, executor);
    }
    W_o_.Forward(ByBatch(attended, batch, n), out, executor);
  } catch (...) {
    if (cache != nullptr) cache->Truncate(before);
    throw;
  }
}

void MultiHeadAttention::Forward(View<const float, 3> queries, View<const float, 3> keys, View<const float, 3> values,
                                 View<float, 3> out, const Lengths& valid_lens, KeyValueCache<float>* cache,
                                 Executor& executor) const {
  ModelWorkspace workspace;
  Forward(queries, keys, values, out, MultiHeadCall{valid_lens, cache, {}}, workspace, executor);
}

void MultiHeadAttention::Forward(View<const float, 3> queries, View<const float, 3> keys, View<const float, 3> values,
                                 View<float, 3> out, const Lengths& valid_lens, KeyValueCache<float>* cache) const {
  Forward(queries, keys, values, out, valid_lens, cache, ThreadPool::Default());
}

}  // namespace heed
