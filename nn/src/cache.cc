#include "heed/nn/cache.h"

#include <string>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "cache_memory.h"
#include "heed/error.h"
#include "tensor_view.h"

namespace heed::nn {
namespace {

// The first tokens say what a cache holds.
CacheMemory MemoryFor(const at::Tensor& key, const at::Tensor& value, int64_t capacity) {
  for (const auto& [name, tokens] : {std::pair{"key", &key}, {"value", &value}}) {
    if (!tokens->defined() || tokens->dim() != 4) {
      throw InvalidArgument(std::string("KeyValueCache: ") + name + ": expected shape [batch, kv_heads, n, width], got " +
                            (tokens->defined() ? ShapeText(*tokens) : "an undefined tensor"));
    }
  }
  CheckDense("KeyValueCache: key", key);
  const auto room = [&](int64_t width) { return at::empty({key.size(0), key.size(1), capacity, width}, key.options()); };
  return {room(key.size(3)), room(value.size(3))};
}

}  // namespace

KeyValueCache::KeyValueCache(std::optional<int64_t> capacity) : capacity_(capacity) {
  if (capacity.value_or(0) < 0) {
    throw InvalidArgument("KeyValueCache: capacity: expected 0 or more, got " + std::to_string(*capacity));
  }
}

void KeyValueCache::append(const at::Tensor& key, const at::Tensor& value) {
  CacheMemory memory = keys_.defined() ? CacheMemory{keys_, values_} : MemoryFor(key, value, capacity_.value_or(0));
  memory = Appended(std::move(memory), key, value, length_, !capacity_);
  keys_ = std::move(memory.keys);
  values_ = std::move(memory.values);
  length_ += key.size(2);
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
