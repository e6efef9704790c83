#include "heed/nn/cache.h"

#include <algorithm>
#include <string>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "attention_call.h"
#include "heed/error.h"
#include "tensor_view.h"

namespace heed::nn {
namespace {

// `own` is undefined before the first append.
void CheckTokens(const char* name, const at::Tensor& tokens, const at::Tensor& own, int64_t count) {
  if (!tokens.defined() || tokens.dim() != 4) {
    throw InvalidArgument(std::string("KeyValueCache: ") + name + ": expected shape [batch, kv_heads, n, width], got " +
                          (tokens.defined() ? ShapeText(tokens) : "an undefined tensor"));
  }
  CheckDense((std::string("KeyValueCache: ") + name).c_str(), tokens);
  const bool fits =
      !own.defined() || (tokens.size(0) == own.size(0) && tokens.size(1) == own.size(1) && tokens.size(3) == own.size(3));
  if (!fits || tokens.size(2) != count) {
    throw InvalidArgument(
        std::string("KeyValueCache: ") + name + ": expected shape [" +
        (own.defined() ? std::to_string(own.size(0)) + ", " + std::to_string(own.size(1)) : "batch, kv_heads") + ", " +
        std::to_string(count) + ", " + (own.defined() ? std::to_string(own.size(3)) : "width") + "], got " + ShapeText(tokens));
  }
  if (own.defined() && tokens.scalar_type() != own.scalar_type()) {
    throw InvalidArgument(std::string("KeyValueCache: ") + name + ": expected " + at::toString(own.scalar_type()) +
                          " as the cache has, got " + at::toString(tokens.scalar_type()));
  }
}

// A cache cannot pass a gradient on: it would be lost without a word.
void CheckNeedsNoGradient(const char* name, const at::Tensor& tokens) {
  if (tokens.requires_grad() && at::GradMode::is_enabled()) {
    throw InvalidArgument(std::string("KeyValueCache: ") + name +
                          ": requires a gradient, which a cache cannot pass on; decode under torch::NoGradGuard or "
                          "torch::InferenceMode, or train without a cache");
  }
}

// Room for `capacity` tokens like those given, that begins with the first `length` of `own`.
at::Tensor Grown(const at::Tensor& own, const at::Tensor& like, int64_t length, int64_t capacity) {
  at::Tensor grown = at::empty({like.size(0), like.size(1), capacity, like.size(3)}, like.options());
  if (length > 0) grown.narrow(2, 0, length).copy_(own.narrow(2, 0, length));
  return grown;
}

}  // namespace

KeyValueCache::KeyValueCache(int64_t capacity) : initial_capacity_(capacity) {
  if (capacity < 0) throw InvalidArgument("KeyValueCache: capacity: expected 0 or more, got " + std::to_string(capacity));
}

void KeyValueCache::append(const at::Tensor& key, const at::Tensor& value) {
  const int64_t count = key.defined() && key.dim() == 4 ? key.size(2) : 0;
  CheckTokens("key", key, keys_, count);
  CheckTokens("value", value, values_, count);
  if (key.size(0) != value.size(0) || key.size(1) != value.size(1) || key.scalar_type() != value.scalar_type()) {
    throw InvalidArgument("KeyValueCache: value: expected batch, kv_heads and type of key " + ShapeText(key) + " " +
                          at::toString(key.scalar_type()) + ", got " + ShapeText(value) + " " +
                          at::toString(value.scalar_type()));
  }
  CheckNeedsNoGradient("key", key);
  CheckNeedsNoGradient("value", value);
  const at::NoGradGuard no_grad;
  const int64_t end = length_ + count;
  if (!keys_.defined() || end > keys_.size(2)) {
    const int64_t capacity = std::max(end, keys_.defined() ? 2 * keys_.size(2) : initial_capacity_);
    at::Tensor keys = Grown(keys_, key, length_, capacity), values = Grown(values_, value, length_, capacity);
    keys_ = std::move(keys);
    values_ = std::move(values);
  }
  keys_.narrow(2, length_, count).copy_(key);
  values_.narrow(2, length_, count).copy_(value);
  length_ = end;
}

void KeyValueCache::truncate(int64_t length) {
  if (length < 0 || length > length_) {
    throw InvalidArgument("KeyValueCache: length: expected 0.." + std::to_string(length_) + ", got " + std::to_string(length));
  }
  length_ = length;
}

void KeyValueCache::reorder(const at::Tensor& rows) {
  if (!rows.defined() || rows.dim() != 1 || rows.scalar_type() != at::kLong) {
    throw InvalidArgument(
        "KeyValueCache: rows: expected int64 of shape [batch], got " +
        (rows.defined() ? std::string(at::toString(rows.scalar_type())) + " " + ShapeText(rows) : "an undefined tensor"));
  }
  CheckDense("KeyValueCache: rows", rows);
  const int64_t batch = keys_.defined() ? keys_.size(0) : 0;
  if (rows.numel() > 0 && (rows.min().item<int64_t>() < 0 || rows.max().item<int64_t>() >= batch)) {
    throw InvalidArgument("KeyValueCache: rows: expected batch rows below " + std::to_string(batch) + ", got " +
                          std::to_string(rows.min().item<int64_t>()) + ".." + std::to_string(rows.max().item<int64_t>()));
  }
  if (!keys_.defined()) return;
  const at::NoGradGuard no_grad;
  keys_ = keys_.index_select(0, rows);
  values_ = values_.index_select(0, rows);
}

at::Tensor KeyValueCache::keys() const { return keys_.defined() ? keys_.narrow(2, 0, length_) : keys_; }
at::Tensor KeyValueCache::values() const { return values_.defined() ? values_.narrow(2, 0, length_) : values_; }

}  // namespace heed::nn
