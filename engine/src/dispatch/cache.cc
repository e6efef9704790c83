#include "heed/cache.h"

#include <algorithm>
#include <numeric>

#include "core/arrays.h"
#include "core/checked_integer.h"
#include "core/operand.h"
#include "core/regions.h"

namespace heed {
namespace {

// Copies the tokens of one head behind the first `length`.
template <class T>
void CopyTokens(const View<const T, 4>& from, int64_t b, int64_t h, T* to) {
  for (int64_t t = 0; t < from.extent[2]; ++t)
    for (int64_t c = 0; c < from.extent[3]; ++c) to[t * from.extent[3] + c] = from(b, h, t, c);
}

}  // namespace

template <class T>
KeyValueCache<T>::KeyValueCache(int64_t batch, int64_t kv_heads, int64_t head_dim, int64_t value_dim, int64_t capacity)
    : batch_(batch), kv_heads_(kv_heads), head_dim_(head_dim), value_dim_(value_dim) {
  for (const int64_t size : {batch, kv_heads, head_dim, value_dim, capacity})
    if (size < 0) core::Refuse("KeyValueCache", "expected sizes of at least 0, got " + std::to_string(size));
  for (const int64_t width : {head_dim, value_dim}) core::CheckExtents<4>("KeyValueCache", {batch, kv_heads, capacity, width});
  Reserve(capacity);
}

template <class T>
void KeyValueCache<T>::Append(View<const T, 4> k, View<const T, 4> v) {
  core::CheckPresent("k", k);
  core::CheckPresent("v", v);
  const int64_t count = k.extent[2];
  core::CheckShape("k", k, {batch_, kv_heads_, count, head_dim_}, "[B, Hkv, n, D]");
  core::CheckShape("v", v, {batch_, kv_heads_, count, value_dim_}, "[B, Hkv, n, Dv]");
  const View<const T, 1> own_keys{keys_.data(), {static_cast<int64_t>(keys_.size())}, {1}};
  const View<const T, 1> own_values{values_.data(), {static_cast<int64_t>(values_.size())}, {1}};
  core::CheckApart("the cache", own_keys, "k", k);
  core::CheckApart("the cache", own_keys, "v", v);
  core::CheckApart("the cache", own_values, "k", k);
  core::CheckApart("the cache", own_values, "v", v);
  // Both numbers are far from the largest: an array of either length has a place in memory.
  if (length_ + count > capacity_) Reserve(std::max(length_ + count, 2 * capacity_));
  for (int64_t b = 0; b < batch_; ++b)
    for (int64_t h = 0; h < kv_heads_; ++h) {
      const int64_t first = (b * kv_heads_ + h) * capacity_ + length_;
      CopyTokens(k, b, h, keys_.data() + first * head_dim_);
      CopyTokens(v, b, h, values_.data() + first * value_dim_);
    }
  length_ += count;
}

template <class T>
void KeyValueCache<T>::Truncate(int64_t length) {
  if (length < 0 || length > length_)
    core::Refuse("length", "expected 0.." + std::to_string(length_) + ", got " + std::to_string(length));
  length_ = length;
}

template <class T>
void KeyValueCache<T>::Reorder(View<const int64_t, 1> rows) {
  core::CheckPresent("rows", rows);
  std::vector<int64_t> chosen;
  for (int64_t b = 0; b < rows.extent[0]; ++b) {
    if (rows(b) < 0 || rows(b) >= batch_)
      core::Refuse("rows", "expected batch rows in 0.." + std::to_string(batch_ - 1) + ", got " + std::to_string(rows(b)));
    chosen.push_back(rows(b));
  }
  Move(capacity_, chosen);
}

template <class T>
void KeyValueCache<T>::Reserve(int64_t capacity) {
  if (capacity <= capacity_) return;
  for (const int64_t width : {head_dim_, value_dim_}) core::CheckExtents<4>("capacity", {batch_, kv_heads_, capacity, width});
  std::vector<int64_t> rows(static_cast<std::size_t>(batch_));
  std::iota(rows.begin(), rows.end(), 0);
  Move(capacity, rows);
}

template <class T>
void KeyValueCache<T>::Move(int64_t capacity, const std::vector<int64_t>& rows) {
  const auto moved = [&](const std::vector<T>& from, int64_t width) {
    const auto batch = static_cast<int64_t>(rows.size());
    core::CheckExtents<4>("capacity", {batch, kv_heads_, capacity, width});
    std::vector<T> to(static_cast<std::size_t>(batch * kv_heads_ * capacity * width));
    for (std::size_t b = 0; b < rows.size(); ++b)
      for (int64_t h = 0; h < kv_heads_; ++h)
        std::copy_n(from.begin() + (rows[b] * kv_heads_ + h) * capacity_ * width, length_ * width,
                    to.begin() + (static_cast<int64_t>(b) * kv_heads_ + h) * capacity * width);
    return to;
  };
  std::vector<T> keys = moved(keys_, head_dim_), values = moved(values_, value_dim_);
  keys_ = std::move(keys);
  values_ = std::move(values);
  capacity_ = capacity;
  batch_ = static_cast<int64_t>(rows.size());
}

template <class T>
void KeyValueCache<T>::Attend(const Attention& attention, View<const T, 4> q, View<T, 4> out, View<Accum<T>, 3> lse,
                              Workspace& workspace, Executor& executor) const {
  core::CheckPresent("q", q);
  // Forward would name k, which the caller does not give.
  const bool fits = kv_heads_ == 0 ? q.extent[1] == 0 : q.extent[1] % kv_heads_ == 0;
  if (q.extent[0] != batch_ || !fits || q.extent[3] != head_dim_)
    core::Refuse("q", "expected [B, Hq, Nq, D] beside the keys of the cache, which are " + core::ShapeText(Keys().extent) +
                          ", got " + core::ShapeText(q.extent));
  Forward<T>(attention, {.q = q, .k = Keys(), .v = Values()}, {.out = out, .lse = lse}, workspace, executor);
}

template class KeyValueCache<float>;
template class KeyValueCache<double>;
template class KeyValueCache<BFloat16>;
template class KeyValueCache<Float16>;

}  // namespace heed
