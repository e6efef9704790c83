// Keys and values of the tokens so far, for decoding one step after the other.
#ifndef HEED_CACHE_H_
#define HEED_CACHE_H_

#include <cstdint>
#include <vector>

#include "heed/attention.h"

namespace heed {

// Holds keys [B, Hkv, length, D] and values [B, Hkv, length, Dv] in memory for `capacity` tokens. Keys are kept as given:
// rotate them before they are appended, or with the queries where the rotation depends on the length. Not safe for use by two
// threads at once.
template <class T>
class KeyValueCache {
 public:
  // All sizes at least 0; throws InvalidArgument.
  KeyValueCache(int64_t batch, int64_t kv_heads, int64_t head_dim, int64_t value_dim, int64_t capacity = 0);

  // Adds the tokens of k [B, Hkv, n, D] and v [B, Hkv, n, Dv] behind those there are. Within the capacity nothing is allocated;
  // beyond, it at least doubles. k and v must not lie in the cache itself. Throws InvalidArgument before anything changes.
  void Append(View<const T, 4> k, View<const T, 4> v);
  // Forgets all tokens from `length` on, 0 <= length <= length().
  void Truncate(int64_t length);
  // Batch row b becomes what row rows(b) was; rows may repeat, and their number is the new batch. For beam search.
  void Reorder(View<const int64_t, 1> rows);
  // Makes room for so many tokens.
  void Reserve(int64_t capacity);

  int64_t batch() const { return batch_; }
  int64_t length() const { return length_; }
  int64_t capacity() const { return capacity_; }
  // Valid until the next call that is not const.
  View<const T, 4> Keys() const { return ViewOf(keys_.data(), head_dim_); }
  View<const T, 4> Values() const { return ViewOf(values_.data(), value_dim_); }

  // Attention of q [B, Hq, Nq, D] over all tokens of the cache; see Forward. With Causal::kBottomRight the last query is the
  // last token appended, and query offsets follow from the length: chunked and whole passes agree to rounding, without dropout,
  // which counts the queries of a call. Otherwise queries stand at 0..Nq-1 unless the options say where.
  void Attend(const Attention& attention, View<const T, 4> q, View<T, 4> out, View<Accum<T>, 3> lse, Workspace& workspace,
              Executor& executor) const;

 private:
  View<const T, 4> ViewOf(const T* data, int64_t width) const {
    return {data, {batch_, kv_heads_, length_, width}, {kv_heads_ * capacity_ * width, capacity_ * width, width, 1}};
  }
  // The first length_ tokens of batch row rows[b] of today become those of row b in memory for `capacity`.
  void Move(int64_t capacity, const std::vector<int64_t>& rows);

  int64_t batch_, kv_heads_, head_dim_, value_dim_, capacity_ = 0, length_ = 0;
  std::vector<T> keys_, values_;
};

}  // namespace heed

#endif  // HEED_CACHE_H_
