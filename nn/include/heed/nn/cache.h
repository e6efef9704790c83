// What layers keep of the tokens so far, as tensors, for decoding one step after the other.
#ifndef HEED_NN_CACHE_H_
#define HEED_NN_CACHE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

namespace heed::nn {

class AttentionPosition;
struct AttentionTensors;
struct SchemeTables;

// Holds keys [batch, kv_heads, length, head_dim] and values [batch, kv_heads, length, value_dim]. Batch, heads, widths and type
// are those of the first tokens appended. Keys are kept as given, or turned once by a scheme. For inference: keys and values
// that require a gradient are refused while gradients are recorded, since none flows back through a cache. Not safe for use by
// two threads at once.
class KeyValueCache {
 public:
  // Memory for `capacity` tokens is set aside at the first append, and append refuses what does not fit; without a capacity the
  // memory doubles when it is full.
  explicit KeyValueCache(std::optional<int64_t> capacity = std::nullopt);

  // Adds the tokens of key [batch, kv_heads, n, head_dim] and value [batch, kv_heads, n, value_dim] behind those there are.
  // Throws InvalidArgument before anything changes.
  void append(const at::Tensor& key, const at::Tensor& value);
  // The same with keys that the scheme turns, once and for all (AttentionPosition::turns_once). positions: where these tokens
  // stand, [n] or [batch, n], int64 or float64, or [batch, n, axes] of a scheme with axes; undefined: behind those there are. A
  // cache holds keys that one scheme turned, or none, and the positions of all its tokens are given or those of none.
  void append(const at::Tensor& key, const at::Tensor& value, const std::shared_ptr<const AttentionPosition>& scheme,
              const at::Tensor& positions = {});
  // Forgets all tokens from `length` on, 0 <= length <= length().
  void truncate(int64_t length);
  // Batch row b becomes what row rows[b] was; rows int64 [new batch] may repeat. For beam search.
  void reorder(const at::Tensor& rows);

  int64_t length() const { return length_; }
  // Views of the cache's memory, undefined before the first append. A later append leaves what they show as it is.
  at::Tensor keys() const;
  at::Tensor values() const;
  // The scheme that has turned the keys; null where they are as given.
  const std::shared_ptr<const AttentionPosition>& turned_by() const { return turned_by_; }
  // Where turned keys stand, [1 or batch, length], and axes where the scheme has them; undefined where they count up from 0.
  const at::Tensor& key_positions() const { return places_; }
  // scheme.tensors(); what a scheme computes of its parameters is computed once for the tokens that there are, while no
  // gradients are recorded and no parameter changes, as PyTorch counts changes.
  AttentionTensors TensorsOf(const AttentionPosition& scheme) const;

 private:
  // Throws unless the cache may hold keys that this scheme turned.
  void CheckScheme(const AttentionPosition* scheme) const;
  void Add(const at::Tensor& key, const at::Tensor& value);
  at::Tensor PlacesWith(const at::Tensor& key, const at::Tensor& positions) const;

  std::shared_ptr<const AttentionPosition> turned_by_;
  at::Tensor places_;
  std::optional<int64_t> capacity_;
  int64_t length_ = 0;
  at::Tensor keys_, values_;                          // [batch, kv_heads, capacity, width]
  mutable std::shared_ptr<const SchemeTables> kept_;  // of the last scheme
};

// What a layer in linear time keeps, however many steps there were. For inference, as KeyValueCache.
struct LinearState {
  int64_t length = 0;  // steps so far
  // [batch, heads, key width, value width], as linear_attention returns it; undefined before the first step.
  at::Tensor state{};
  // What a short convolution read in its last steps, [batch, 3, columns]; undefined before the first step and where there is
  // none.
  at::Tensor inputs{};
};

// A cache for each layer of a stack, or a state, which takes no memory that grows; the capacity is of caches alone.
class LayerCaches {
 public:
  explicit LayerCaches(int64_t layers, std::optional<int64_t> capacity = std::nullopt)
      : layers_(layers, KeyValueCache(capacity)), states_(layers) {}

  KeyValueCache& operator[](std::size_t layer) { return layers_[layer]; }
  // Of an encoder in linear time, which leaves the layer's cache empty.
  LinearState& state(std::size_t layer) { return states_[layer]; }
  std::size_t size() const { return layers_.size(); }
  // Tokens in every layer.
  int64_t length() const;
  // Forgets all tokens from `length` on, 0 <= length <= length(). States hold no earlier tokens: of them `length` is 0 or
  // length(). Throws InvalidArgument before anything changes.
  void truncate(int64_t length);
  // Batch row b becomes what row rows[b] was; see KeyValueCache.
  void reorder(const at::Tensor& rows);

 private:
  std::vector<KeyValueCache> layers_;
  std::vector<LinearState> states_;
};

}  // namespace heed::nn

#endif  // HEED_NN_CACHE_H_
