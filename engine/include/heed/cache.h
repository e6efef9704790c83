// Keys and values of the tokens so far, for step-by-step decoding.
#ifndef HEED_CACHE_H_
#define HEED_CACHE_H_

#include <cstdint>
#include <vector>

#include "heed/attention.h"

namespace heed {

// Holds keys [B, Hkv, length, D] and values [B, Hkv, length, Dv] in memory for `capacity` tokens. It does not rotate keys:
// rotate them before Append, or at each call if the rotation depends on the length. Not safe for use by two threads at once.
template <class T>
class KeyValueCache {
 public:
  // All sizes at least 0; throws InvalidArgument.
  KeyValueCache(int64_t batch, int64_t kv_heads, int64_t head_dim, int64_t value_dim, int64_t capacity = 0);

  // Adds the tokens of k [B, Hkv, n, D] and v [B, Hkv, n, Dv]. Within the capacity it allocates nothing; beyond, the capacity
  // at least doubles. k and v must not lie in the cache itself. Throws InvalidArgument before anything changes.
  void Append(View<const T, 4> k, View<const T, 4> v);
  // Forgets all tokens from `length` on. Throws InvalidArgument unless 0 <= length <= length().
  void Truncate(int64_t length);
  // Copies row rows(b) to batch row b, for beam search; rows may repeat, and their number is the new batch. Throws
  // InvalidArgument for rows outside 0..batch()-1.
  void Reorder(View<const int64_t, 1> rows);
  // Makes room for so many tokens. Throws InvalidArgument.
  void Reserve(int64_t capacity);

  int64_t batch() const { return batch_; }
  int64_t length() const { return length_; }
  int64_t capacity() const { return capacity_; }
  // Valid until the next call that is not const.
  View<const T, 4> Keys() const { return ViewOf(keys_.data(), head_dim_); }
  View<const T, 4> Values() const { return ViewOf(values_.data(), value_dim_); }

  // Attention of q [B, Hq, Nq, D] over all tokens of the cache; see Forward. With Causal::kBottomRight the last query is the
  // last appended token, so chunked and whole passes agree to rounding, except with dropout, which counts the queries of a
  // call. Otherwise queries stand at 0..Nq-1 unless query_positions are given: to decode, take kBottomRight. Throws
  // InvalidArgument, which names q where it does not fit the cache.
  void Attend(const Attention& attention, View<const T, 4> q, View<T, 4> out, View<Accum<T>, 3> lse, Workspace& workspace,
              Executor& executor) const;

 private:
  View<const T, 4> ViewOf(const T* data, int64_t width) const {
    return {data, {batch_, kv_heads_, length_, width}, {kv_heads_ * capacity_ * width, capacity_ * width, width, 1}};
  }
  // Copies the first length_ tokens of row rows[b] to row b, into new memory for `capacity` tokens.
  void Move(int64_t capacity, const std::vector<int64_t>& rows);

  int64_t batch_, kv_heads_, head_dim_, value_dim_, capacity_ = 0, length_ = 0;
  std::vector<T> keys_, values_;
};

}  // namespace heed

#endif  // HEED_CACHE_H_
