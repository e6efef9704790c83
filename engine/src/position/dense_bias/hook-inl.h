// A bias that the caller holds as an array, of any broadcast shape. A tile of it is read once: where it hides pairs, what it
// adds and, turned back, its gradient all work on the same scratch tile.
#if defined(HEED_POSITION_DENSE_BIAS_HOOK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_POSITION_DENSE_BIAS_HOOK_INL_H_
#undef HEED_POSITION_DENSE_BIAS_HOOK_INL_H_
#else
#define HEED_POSITION_DENSE_BIAS_HOOK_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <numeric>
#include <variant>

#include "attention/few_queries-inl.h"
#include "attention/mask-inl.h"
#include "attention/position_hook-inl.h"
#include "hwy/highway.h"
#include "position/dense_bias/scheme.h"
#include "simd/lane_sums-inl.h"
#include "simd/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
class DenseBiasHook final : public PositionHook<T> {
 public:
  using Call = position::DenseBiasCall<T>;
  DenseBiasHook(const Call& call, const typename Call::Scratch& scratch, const position::HookPlace& place)
      : call_(call), tile_(scratch.tile), wide_(scratch.wide), kv_len_(place.plan.shape().kv_len), ahead_(place.ahead) {}

  bool hides() const override { return true; }

  void Begin(const PanelArrays<T>& panel) override { d_bias_ = call_.Part(panel.block, panel.chunk); }

  // Takes the tile in powers of two, and finds out what is special about it.
  void Hide(const TilePlace& place, uint64_t* visible) override {
    Gather(place, static_cast<T>(std::numbers::log2e));
    // Far from where numbers end, multiplying is all there is to it.
    const auto limit = hn::Set(d_, std::numeric_limits<T>::max() / 2);
    auto ordinary = hn::Lt(hn::Zero(d_), limit);
    T* tile = RowsOfStrip(tile_, place);
    ForEachVector(d_, place, [&](int64_t at, int64_t, int64_t) HWY_ATTR {
      ordinary = hn::And(ordinary, hn::Lt(hn::Abs(hn::Load(d_, tile + at)), limit));
    });
    if (hn::AllTrue(d_, ordinary)) return;
    Gather(place, T{1});
    const auto hidden = hn::Set(d_, -std::numeric_limits<T>::infinity());
    ForEachVector(d_, place, [&](int64_t at, int64_t j, int64_t w) HWY_ATTR {
      const auto nats = hn::Load(d_, tile + at);
      visible[j] &= ~BitsOf(d_, hn::Eq(nats, hidden), w);
      hn::Store(NatsToBits(d_, nats), d_, tile + at);
    });
  }

  // Asks for what the tile's gradient is added to, and for the next tile: the pieces of rows that a tile takes are too short
  // for hardware to follow.
  void BeginTile(const TilePlace& place, const TileArrays<T>&) override {
    if (!place.one_head || place.keys < simd::kTileKeys) return;
    if (d_bias_.present()) AskFor(d_bias_, place, 0);
    if (place.key + place.keys >= kv_len_) return;
    std::visit([&](const auto& bias) { AskFor(bias, place, place.keys); }, call_.bias());
  }

  void AddToScores(const TilePlace& place, bool empty, T* scores) override {
    const T* tile = RowsOfStrip(tile_, place);
    AddTerms(d_, place, empty, scores, [&](int64_t j, int64_t w) HWY_ATTR { return hn::Load(d_, tile + j * place.panel + w); });
  }

  void AddToTangent(const TilePlace& place, T* tangent) override {
    if (!call_.tangent().present()) return;
    Gather(call_.tangent(), place, T{1});
    AddToScores(place, false, tangent);
  }

  bool adds_to_rows() const override { return true; }
  void AddToRow(const TilePlace& place, int64_t w, T* row) override {
    std::visit([&](const auto& bias) { AddToRow(bias, place, w, row); }, call_.bias());
  }

  void Accumulate(const TilePlace& place, const T* d_scores) override {
    if (!d_bias_.present()) return;
    const bool per_query = d_bias_.extent[2] != 1, per_key = d_bias_.extent[3] != 1;
    if (!per_query && per_key && place.one_head) {
      SumOverLanes(place, d_scores);
      return;
    }
    const int64_t used = place.used_end() - place.lane_begin;
    if (used <= 0) return;
    T* rows = RowsOfStrip(tile_, place);
    Transpose(d_scores + place.lane_begin, place.panel, place.keys, used, T{1}, rows, place.keys);
    for (int64_t w = 0; w < used; ++w) AddGradient(place, place.lane_begin + w, rows + w * place.keys);
  }

 private:
  // Elements of 16 bits, where the type of computation is float.
  template <class V>
  static constexpr bool kWidens = sizeof(V) == 2 && sizeof(T) == sizeof(float);

  // tile[j, w] = factor * the entry of lane w and key j; 0 in idle lanes.
  void Gather(const TilePlace& place, T factor) {
    std::visit([&](const auto& bias) { Gather(bias, place, factor); }, call_.bias());
  }
  template <class V>
  void Gather(const View<const V, 4>& bias, const TilePlace& place, T factor) {
    T* tile = RowsOfStrip(tile_, place);
    const int64_t used_end = std::max(place.used_end(), place.lane_begin);
    for (int64_t j = 0; used_end < place.lane_end && j < place.keys; ++j)
      std::fill(tile + j * place.panel + used_end, tile + j * place.panel + place.lane_end, T{0});
    if (used_end == place.lane_begin) return;
    int64_t stride = 0;
    const V* first = DenseRow(bias, place, place.lane_begin, stride);
    const int64_t used = used_end - place.lane_begin, row_stride = bias.extent[2] == 1 ? 0 : bias.stride[2];
    const bool rows = place.one_head && stride == 1;
    if constexpr (std::is_same_v<V, T>) {
      if (rows) return Transpose(first, row_stride, used, place.keys, factor, tile + place.lane_begin, place.panel);
    } else if constexpr (kWidens<V>) {
      if (rows) {
        for (int64_t w = 0; w < used; ++w)
          WidenRow(reinterpret_cast<const std::byte*>(first + w * row_stride), core::ElementOf<V>(), place.keys,
                   wide_ + w * place.keys);
        return Transpose<T>(wide_, place.keys, used, place.keys, factor, tile + place.lane_begin, place.panel);
      }
    }
    for (int64_t w = place.lane_begin; w < used_end; ++w) {
      const V* row = DenseRow(bias, place, w, stride);
      for (int64_t j = 0; j < place.keys; ++j) tile[j * place.panel + w] = factor * Converted(row[j * stride]);
    }
  }

  template <class V>
  void AddToRow(const View<const V, 4>& bias, const TilePlace& place, int64_t w, T* row) {
    constexpr T kHidden = -std::numeric_limits<T>::infinity();
    int64_t stride = 0;
    const V* entries = DenseRow(bias, place, w, stride);
    const auto add = [&](auto d, auto nats, auto score) HWY_ATTR {
      const auto hidden = hn::Set(d, kHidden);
      return hn::IfThenElse(hn::Eq(nats, hidden), hidden, hn::Add(score, NatsToBits(d, nats)));
    };
    if constexpr (std::is_same_v<V, T> || kWidens<V>) {
      if (stride == 1) {
        const auto* bytes = reinterpret_cast<const std::byte*>(entries);
        ChangeRow(place.keys, row, [&](auto d, int64_t j, auto score) HWY_ATTR {
          return add(d, RowReader<T, core::ElementOf<V>()>::Load(d, bytes, j), score);
        });
        return;
      }
    }
    const hn::CappedTag<T, 1> one;
    for (int64_t j = 0; j < place.keys; ++j)
      row[j] = hn::GetLane(add(one, hn::Set(one, Converted(entries[j * stride])), hn::Set(one, row[j])));
  }

  // The rows of the tile that begins `further` keys behind this one.
  template <class V>
  void AskFor(const View<V, 4>& rows, const TilePlace& place, int64_t further) {
    int64_t stride = 0;
    const V* first = DenseRow(rows, place, place.lane_begin, stride);
    if (stride != 1 || rows.extent[2] == 1) return;
    constexpr int64_t kBytes = sizeof(V);
    ahead_.Add(reinterpret_cast<const std::byte*>(first + further),
               std::min(place.keys, kv_len_ - place.key - further) * kBytes, rows.stride[2] * kBytes,
               place.used_end() - place.lane_begin);
  }

  // What is finite stays finite.
  template <class V>
  static T Converted(V stored) {
    constexpr double kMost = std::numeric_limits<T>::max();
    const auto entry = static_cast<double>(stored);
    return static_cast<T>(std::isfinite(entry) ? std::clamp(entry, -kMost, kMost) : entry);
  }

  // gradient: of the keys of a tile in the row of lane w.
  void AddGradient(const TilePlace& place, int64_t w, const T* gradient) const {
    int64_t stride = 0;
    T* row = DenseRow(d_bias_, place, w, stride);
    if (d_bias_.extent[3] == 1) {
      *row += std::accumulate(gradient, gradient + place.keys, T{0});
    } else if (stride == 1) {
      for (int64_t j = 0; j < place.keys; ++j) row[j] += gradient[j];
    } else {
      for (int64_t j = 0; j < place.keys; ++j) row[j * stride] += gradient[j];
    }
  }

  // One entry a key for all queries.
  void SumOverLanes(const TilePlace& place, const T* d_scores) {
    int64_t stride = 0;
    T* row = DenseRow(d_bias_, place, place.lane_begin, stride);
    for (int64_t j = 0; j < place.keys; ++j)
      row[j * stride] += SumOfLanesFrom(d_, d_scores + j * place.panel, place.lane_begin, place.lane_end);
  }

  static constexpr hn::ScalableTag<T> d_{};
  const Call& call_;
  T *tile_, *wide_;
  int64_t kv_len_;
  simd::Ahead& ahead_;
  View<T, 4> d_bias_;  // where the panel at hand adds its gradient
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
