// Caches of layers, as tensors, for step-by-step decoding.
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
// are those of the first appended tokens. Keys are kept as given, or turned once by a scheme. For inference: while gradients
// are recorded, append throws for keys and values that require one. Not safe for use by two threads at once.
class KeyValueCache {
 public:
  // The first append allocates memory for `capacity` tokens, and append throws for more; without a capacity the memory doubles
  // when it is full.
  explicit KeyValueCache(std::optional<int64_t> capacity = std::nullopt);

  // Adds the tokens of key [batch, kv_heads, n, head_dim] and value [batch, kv_heads, n, value_dim]. Throws InvalidArgument
  // before anything changes.
  void append(const at::Tensor& key, const at::Tensor& value);
  // Turns the keys by the scheme first (AttentionPosition::turns_once). positions of these tokens: [n] or [batch, n], int64 or
  // float64, or [batch, n, axes] for a scheme with axes; undefined: after those in the cache. Use one scheme for all tokens of
  // a cache, or none, and give positions for all its tokens or for none.
  void append(const at::Tensor& key, const at::Tensor& value, const std::shared_ptr<const AttentionPosition>& scheme,
              const at::Tensor& positions = {});
  // Forgets all tokens from `length` on. Throws InvalidArgument unless 0 <= length <= length().
  void truncate(int64_t length);
  // Copies row rows[b] to batch row b, for beam search; rows int64 [new batch] may repeat. Throws
  // InvalidArgument for rows outside the batch.
  void reorder(const at::Tensor& rows);

  int64_t length() const { return length_; }
  // Views of the cache's memory, undefined before the first append. Later appends do not change their numbers.
  at::Tensor keys() const;
  at::Tensor values() const;
  // The scheme that turned the keys; null if none did.
  const std::shared_ptr<const AttentionPosition>& turned_by() const { return turned_by_; }
  // Positions of turned keys, [1 or batch, length], with axes [1 or batch, length, axes]; undefined if they count up from 0.
  const at::Tensor& key_positions() const { return places_; }
  // scheme.tensors(), kept between calls while no gradients are recorded and no parameter changes (by PyTorch's version
  // counters).
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

// The state of a layer in linear time; its size does not grow with the steps. For inference, as KeyValueCache.
struct LinearState {
  int64_t length = 0;  // steps so far
  // [batch, heads, key width, value width], as linear_attention returns it; undefined before the first step.
  at::Tensor state{};
  // The last three inputs of the short convolution, [batch, 3, columns]; undefined before the first step and without
  // convolution.
  at::Tensor inputs{};
};

// A cache, or a state that does not grow, for each layer of a stack; the capacity is for caches alone.
class LayerCaches {
 public:
  explicit LayerCaches(int64_t layers, std::optional<int64_t> capacity = std::nullopt)
      : layers_(layers, KeyValueCache(capacity)), states_(layers) {}

  KeyValueCache& operator[](std::size_t layer) { return layers_[layer]; }
  // The state of a layer in linear time, which leaves the layer's cache empty.
  LinearState& state(std::size_t layer) { return states_[layer]; }
  std::size_t size() const { return layers_.size(); }
  // Tokens in every layer.
  int64_t length() const;
  // Forgets all tokens from `length` on. Throws InvalidArgument, before anything changes, unless 0 <= length <= length(), and,
  // where a layer has a state, for lengths other than these two bounds.
  void truncate(int64_t length);
  // Copies row rows[b] to batch row b; see KeyValueCache.
  void reorder(const at::Tensor& rows);

 private:
  std::vector<KeyValueCache> layers_;
  std::vector<LinearState> states_;
};

}  // namespace heed::nn

#endif  // HEED_NN_CACHE_H_
