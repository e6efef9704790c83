#include "heed/multi_head_attention.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "heed/error.h"
#include "heed/thread_workspace.h"
#include "parameter.h"
#include "shape_text.h"

namespace heed {
namespace {

// Tables by offset: low enough that no product of sizes overflows.
constexpr int64_t kMostDistance = int64_t{1} << 30;
// T5's table by offset is made from a few numbers by bucket: a small file that claims a large distance takes no more than this.
constexpr int64_t kMostBiases = int64_t{1} << 26;

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

void CheckDistance(int64_t max_distance) {
  if (max_distance < 0 || max_distance > kMostDistance) {
    Refuse("position: max_distance: expected 0 to 2^30, got " + std::to_string(max_distance));
  }
}

Table<2> TableOf(const std::vector<float>& numbers, int64_t rows, int64_t columns) {
  return View<const float, 2>::Contiguous(numbers.data(), {rows, columns});
}

// weight [buckets, heads] -> [heads, 2 * max_distance + 1]: beyond max_distance all offsets share a bucket, as a table clipped
// there has them.
std::vector<float> BiasByOffset(const T5Options& options, int64_t heads, std::span<const float> weight) {
  const int64_t offsets = 2 * options.max_distance + 1;
  std::vector<int64_t> buckets(static_cast<std::size_t>(offsets));
  T5Buckets(options, options.max_distance, View<int64_t, 1>::Contiguous(buckets.data(), {offsets}));
  std::vector<float> bias;
  bias.reserve(static_cast<std::size_t>(heads * offsets));
  for (int64_t h = 0; h < heads; ++h) {
    for (const int64_t bucket : buckets) bias.push_back(weight[bucket * heads + h]);
  }
  return bias;
}

void CheckInput(const char* name, const View<const float, 3>& x, int64_t width) {
  if (x.extent[2] != width || x.extent[0] < 0 || x.extent[1] < 0) {
    Refuse(std::string(name) + ": expected shape [batch, steps, " + std::to_string(width) + "], got " + ShapeText(x.extent));
  }
}

// [batch, steps, heads * head_dim] in one piece as [batch, heads, steps, head_dim].
View<const float, 4> Heads(const std::vector<float>& numbers, int64_t batch, int64_t steps, int64_t heads, int64_t head_dim) {
  const int64_t width = heads * head_dim;
  return {numbers.data(), {batch, heads, steps, head_dim}, {steps * width, head_dim, width, 1}};
}

// valid_lens as d2l means them, held to 0..steps.
struct ClampedLengths {
  ClampedLengths(const Lengths& valid_lens, int64_t batch, int64_t queries, int64_t steps) {
    const View<const int64_t, 2>& given = valid_lens.values;
    if (!given.present()) return;
    if (given.extent[0] != batch || (given.extent[1] != 1 && given.extent[1] != queries)) {
      Refuse("valid_lens: expected shape [" + std::to_string(batch) + "] or [" + std::to_string(batch) + ", " +
             std::to_string(queries) + "], got " + ShapeText(given.extent));
    }
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t i = 0; i < given.extent[1]; ++i) numbers.push_back(std::clamp<int64_t>(given(b, i), 0, steps));
    }
    lengths.values = View<const int64_t, 2>::Contiguous(numbers.data(), given.extent);
  }
  std::vector<int64_t> numbers;
  Lengths lengths;
};

}  // namespace

MultiHeadAttention::MultiHeadAttention(MultiHeadAttentionOptions options)
    : options_(Resolved(std::move(options))),
      head_dim_(options_.head_dim),
      W_q_(options_.query_size, head_dim_ * options_.num_heads, options_.bias),
      W_k_(options_.key_size, head_dim_ * options_.kv_heads, options_.bias),
      W_v_(options_.value_size, head_dim_ * options_.kv_heads, options_.bias),
      W_o_(head_dim_ * options_.num_heads, options_.num_hiddens, options_.bias) {
  if (std::holds_alternative<AlibiPosition>(options_.position)) {
    for (const double slope : AlibiSlopes(options_.num_heads)) slopes_.push_back(static_cast<float>(slope));
  } else if (const auto* relative = std::get_if<RelativeBiasPosition>(&options_.position)) {
    CheckDistance(relative->max_distance);
  } else if (const auto* shaw = std::get_if<ShawPosition>(&options_.position)) {
    CheckDistance(shaw->max_distance);
  } else if (const auto* t5 = std::get_if<T5Position>(&options_.position)) {
    T5Thresholds(t5->options);  // throws before a table of nonsensical size is made
    CheckDistance(t5->options.max_distance);
    const int64_t biases = options_.num_heads * (2 * t5->options.max_distance + 1);
    if (biases > kMostBiases) {
      Refuse("position: expected at most 2^26 for num_heads * (2 * max_distance + 1), got " + std::to_string(biases));
    }
  }
}

MultiHeadAttention::MultiHeadAttention(int64_t num_hiddens, int64_t num_heads, bool bias)
    : MultiHeadAttention(MultiHeadAttentionOptions{.num_hiddens = num_hiddens, .num_heads = num_heads, .bias = bias}) {}

Parameters MultiHeadAttention::parameters() {
  Parameters own;
  own.Add("W_q", W_q_.parameters());
  own.Add("W_k", W_k_.parameters());
  own.Add("W_v", W_v_.parameters());
  own.Add("W_o", W_o_.parameters());
  own.attention.push_back({"", options_.num_heads, options_.kv_heads});
  if (const auto* relative = std::get_if<RelativeBiasPosition>(&options_.position)) {
    own.list.push_back(KeptIn(relative_bias_, "position.relative_bias", {options_.num_heads, 2 * relative->max_distance + 1}));
  } else if (const auto* shaw = std::get_if<ShawPosition>(&options_.position)) {
    const std::vector<int64_t> shape{2 * shaw->max_distance + 1, head_dim_};
    own.list.push_back(KeptIn(keys_, "position.keys", shape));
    if (shaw->values) own.list.push_back(KeptIn(values_, "position.values", shape));
    if (shaw->queries) own.list.push_back(KeptIn(queries_, "position.queries", shape));
  } else if (const auto* t5 = std::get_if<T5Position>(&options_.position)) {
    own.list.push_back({"position.weight", {t5->options.buckets, options_.num_heads}, [this](std::span<const float> values) {
                          relative_bias_ =
                              BiasByOffset(std::get<T5Position>(options_.position).options, options_.num_heads, values);
                        }});
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
  if (const auto* alibi = std::get_if<AlibiPosition>(&options_.position)) {
    call.slope_bias = SlopeBias{View<const float, 1>::Contiguous(slopes_.data(), {options_.num_heads}), alibi->symmetric};
  }
  const bool has_bias =
      std::holds_alternative<RelativeBiasPosition>(options_.position) || std::holds_alternative<T5Position>(options_.position);
  if (has_bias) {
    const int64_t offsets = static_cast<int64_t>(relative_bias_.size()) / options_.num_heads;
    if (offsets == 0) Refuse("position: its weights were not loaded");
    call.relative_bias = RelativeBias{TableOf(relative_bias_, options_.num_heads, offsets)};
  }
  if (const auto* shaw = std::get_if<ShawPosition>(&options_.position)) {
    const int64_t rows = 2 * shaw->max_distance + 1;
    if (keys_.empty()) Refuse("position: its weights were not loaded");
    call.content_bias.emplace();
    call.content_bias->keys = TableOf(keys_, rows, head_dim_);
    if (shaw->values) call.content_bias->values = TableOf(values_, rows, head_dim_);
    if (shaw->queries) call.content_bias->queries = TableOf(queries_, rows, head_dim_);
  }
  return call;
}

std::vector<float> MultiHeadAttention::Projected(const Linear& linear, View<const float, 3> x, Executor& executor) const {
  std::vector<float> numbers(static_cast<std::size_t>(x.extent[0] * x.extent[1] * linear.out()));
  linear.Forward(x, View<float, 3>::Contiguous(numbers.data(), {x.extent[0], x.extent[1], linear.out()}), executor);
  return numbers;
}

void MultiHeadAttention::Turn(std::vector<float>& heads, const View<const float, 4>& view, int64_t first_position,
                              int64_t length, Executor& executor) const {
  const auto* rotary = std::get_if<RotaryPosition>(&options_.position);
  if (rotary == nullptr || heads.empty()) return;
  const int64_t steps = view.extent[2], pairs = rotary->options.rotary_dim / 2;
  std::vector<float> cos(static_cast<std::size_t>(steps * pairs)), sin(cos.size());
  RotaryTable(ComputeRotaryFrequencies(rotary->options, length), first_position,
              View<float, 2>::Contiguous(cos.data(), {steps, pairs}), View<float, 2>::Contiguous(sin.data(), {steps, pairs}));
  ApplyRotary(Rotation{rotary->layout, /*inverse=*/false}, view,
              View<const float, 3>::Contiguous(cos.data(), {1, steps, pairs}),
              View<const float, 3>::Contiguous(sin.data(), {1, steps, pairs}),
              View<float, 4>{heads.data(), view.extent, view.stride}, executor);
}

void MultiHeadAttention::CheckInputs(View<const float, 3> queries, View<const float, 3> keys, View<const float, 3> values,
                                     View<float, 3> out, const KeyValueCache<float>* cache) const {
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
  if (cache == nullptr) return;
  if (cache->batch() != batch) {
    Refuse("cache: expected a batch of " + std::to_string(batch) + " as queries have, got " + std::to_string(cache->batch()));
  }
  const auto* rotary = std::get_if<RotaryPosition>(&options_.position);
  if (rotary != nullptr && DependsOnLength(rotary->options.scaling)) {
    Refuse(
        "cache: rotary positions whose frequencies depend on the length of the text cannot be cached; give one without such "
        "a scaling, or call without a cache");
  }
}

void MultiHeadAttention::Forward(View<const float, 3> queries, View<const float, 3> keys, View<const float, 3> values,
                                 View<float, 3> out, const Lengths& valid_lens, KeyValueCache<float>* cache,
                                 Executor& executor) const {
  CheckInputs(queries, keys, values, out, cache);
  const int64_t batch = queries.extent[0], n = queries.extent[1], m = keys.extent[1];
  const int64_t before = cache != nullptr ? cache->length() : 0, length = before + m;
  const ClampedLengths lengths(valid_lens, batch, n, length);
  Attention call = Call();
  call.key_lengths = lengths.lengths;
  std::vector<float> query = Projected(W_q_, queries, executor), key = Projected(W_k_, keys, executor);
  const std::vector<float> value = Projected(W_v_, values, executor);
  const View<const float, 4> q = Heads(query, batch, n, options_.num_heads, head_dim_),
                             k = Heads(key, batch, m, options_.kv_heads, head_dim_),
                             v = Heads(value, batch, m, options_.kv_heads, head_dim_);
  const int64_t first_query = options_.causal == Causal::kBottomRight ? length - n : 0;
  const int64_t longest = std::max(length, first_query + n);
  Turn(query, q, first_query, longest, executor);
  Turn(key, k, before, longest, executor);

  std::vector<float> attended(query.size());
  const View<float, 4> attended_heads{attended.data(), q.extent, q.stride};
  if (cache != nullptr) cache->Append(k, v);
  try {
    if (cache != nullptr) {
      cache->Attend(call, q, attended_heads, {}, ThreadWorkspace(), executor);
    } else {
      heed::Forward(call, q, k, v, attended_heads, {}, ThreadWorkspace(), executor);
    }
    W_o_.Forward(View<const float, 3>::Contiguous(attended.data(), {batch, n, head_dim_ * options_.num_heads}), out, executor);
  } catch (...) {
    if (cache != nullptr) cache->Truncate(before);
    throw;
  }
}

void MultiHeadAttention::Forward(View<const float, 3> queries, View<const float, 3> keys, View<const float, 3> values,
                                 View<float, 3> out, const Lengths& valid_lens, KeyValueCache<float>* cache) const {
  Forward(queries, keys, values, out, valid_lens, cache, ThreadPool::Default());
}

}  // namespace heed
