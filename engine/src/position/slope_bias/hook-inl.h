// A bias linear in the distance: -slope * |key position - query position|, or slope * (key position - query position).
// Positions may be real numbers. Press et al. 2022, "Train Short, Test Long", section 3.
#if defined(HEED_POSITION_SLOPE_BIAS_HOOK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_POSITION_SLOPE_BIAS_HOOK_INL_H_
#undef HEED_POSITION_SLOPE_BIAS_HOOK_INL_H_
#else
#define HEED_POSITION_SLOPE_BIAS_HOOK_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <variant>

#include "attention/position_hook-inl.h"
#include "attention/problem.h"
#include "heed/log_sum_exp.h"
#include "hwy/highway.h"
#include "position/slope_bias/scheme.h"
#include "simd/lane_sums-inl.h"
#include "simd/tuning.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
class SlopeBiasHook final : public PositionHook<T> {
 public:
  using Call = position::SlopeBiasCall<T>;
  SlopeBiasHook(const Call& call, const typename Call::Scratch&, const position::HookPlace& place)
      : call_(call), bias_(call.bias()), plan_(place.plan) {}

  void Begin(const PanelArrays<T>& panel) override {
    chunk_ = panel.chunk;
    listed_ = plan_.order().listed();
    first_ = listed_ ? 0 : plan_.FirstOffset(panel.b);
    centres_ = panel.zero_sums;
    if (centres_ && call_.wants_scores()) FindKeys(panel.b);
  }

  void AddToScores(const TilePlace& place, bool empty, T* scores) override {
    Add(place, empty, scores, [&](int64_t head) { return Slope(head); });
  }
  void AddToTangent(const TilePlace& place, T* tangent) override {
    const View<const T, 1>& slopes = call_.tangent();
    if (slopes.present()) Add(place, false, tangent, [&](int64_t head) { return slopes(head); });
  }

  bool adds_to_rows() const override { return true; }
  void AddToRow(const TilePlace& place, int64_t w, T* row) override {
    const T slope = Slope(place.heads[w]);
    if (listed_) {
      for (int64_t j = 0; j < place.keys; ++j) row[j] = MulAddOne(slope, Signed(Between(place, j, w)), row[j]);
      return;
    }
    const int64_t first = first_ + place.key - place.queries[w];
    ChangeRow(place.keys, row, [&](auto d, int64_t j, auto score) HWY_ATTR {
      const auto offset = hn::Add(hn::Set(d, static_cast<T>(first + j)), hn::Iota(d, T{0}));
      const auto direction = bias_.symmetric ? hn::Neg(hn::Abs(offset)) : offset;
      return hn::MulAdd(hn::Set(d, slope), direction, score);
    });
  }

  void Accumulate(const TilePlace& place, const T* d_scores) override {
    if (!place.one_head) {
      for (int64_t w = place.lane_begin; w < place.used_end(); ++w) AddGradient(place, w, d_scores + w);
      return;
    }
    T* d_slope = call_.Part(0, 0, place.b, place.head, chunk_);
    if (!d_slope) return;
    T sum = 0;
    if (!listed_) {
      LaneSums<decltype(d_)> sums;
      HWY_ALIGN T centres[simd::kWidestPanelBytes / sizeof(T)] = {};
      for (int64_t w = place.lane_begin; w < place.used_end(); ++w) centres[w] = Centre(place, w);
      for (int64_t j = 0; j < place.keys; ++j)
        sums.ForEach(place.lane_begin, place.lane_end, [&](int64_t w, auto& part) HWY_ATTR {
          part = hn::MulAdd(hn::Sub(Direction(place, j, w), hn::Load(d_, centres + w)),
                            hn::Load(d_, d_scores + j * place.panel + w), part);
        });
      sum = sums.Total();
    } else {
      for (int64_t w = place.lane_begin; w < place.used_end(); ++w) {
        const T centre = Centre(place, w);
        for (int64_t j = 0; j < place.keys; ++j) sum += (Signed(Between(place, j, w)) - centre) * d_scores[j * place.panel + w];
      }
    }
    *d_slope += sum;
  }

 private:
  // slope_of(head): the slope that is added.
  template <class SlopeOf>
  void Add(const TilePlace& place, bool empty, T* scores, const SlopeOf& slope_of) {
    if (!listed_ && place.one_head) {
      const auto slope = hn::Set(d_, slope_of(place.head));
      AddTerms(d_, place, empty, scores, [&](int64_t j, int64_t w) HWY_ATTR { return hn::Mul(slope, Direction(place, j, w)); });
      return;
    }
    AddScalarTerms(place, empty, scores,
                   [&](int64_t j, int64_t w) { return slope_of(place.heads[w]) * Signed(Between(place, j, w)); });
  }

  // d_scores: of the tile's first key and lane w.
  void AddGradient(const TilePlace& place, int64_t w, const T* d_scores) const {
    T* d_slope = call_.Part(0, 0, place.b, place.heads[w], chunk_);
    if (!d_slope) return;
    // Thousands of terms one after the other.
    double sum = 0;
    const T centre = Centre(place, w);
    for (int64_t j = 0; j < place.keys; ++j)
      sum += static_cast<double>(Signed(Between(place, j, w)) - centre) * static_cast<double>(d_scores[j * place.panel]);
    *d_slope += static_cast<T>(sum);
  }

  T Slope(int64_t head) const {
    return InPowersOfTwo<T>(std::visit([&](const auto& slopes) { return static_cast<double>(slopes(head)); }, bias_.slopes));
  }

  // What the slope multiplies, for the lanes from w on and key j of a tile of one head.
  HWY_INLINE hn::Vec<hn::ScalableTag<T>> Direction(const TilePlace& place, int64_t j, int64_t w) const {
    const auto corner = hn::Set(d_, static_cast<T>(first_ + place.key + j - place.query - w));
    const auto offset = hn::Sub(corner, hn::Iota(d_, T{0}));
    return bias_.symmetric ? hn::Neg(hn::Abs(offset)) : offset;
  }

  // What is taken off the distances of a row before they are multiplied by the gradients of its scores: that of the nearest key
  // of all. These gradients sum to 0, as far as rounding lets them, and what is left of their sum would be multiplied by a
  // distance that all keys share.
  T Centre(const TilePlace& place, int64_t w) const {
    if (!centres_) return 0;
    const double query = listed_ ? plan_.order().QueryPositions(place.b)[place.queries[w]]
                                 : static_cast<double>(place.queries[w]) - static_cast<double>(first_);
    return Signed(std::clamp(0.0, low_ - query, high_ - query));
  }

  void FindKeys(int64_t b) {
    const int64_t count = plan_.KeyCount(b);
    if (!listed_) {
      low_ = 0;
      high_ = static_cast<double>(std::max<int64_t>(0, count - 1));
    } else if (b != row_) {
      const auto [low, high] = std::minmax_element(plan_.order().KeyPositions(b), plan_.order().KeyPositions(b) + count);
      low_ = count > 0 ? *low : 0;
      high_ = count > 0 ? *high : 0;
    }
    row_ = b;
  }

  T Signed(double offset) const { return static_cast<T>(bias_.symmetric ? -std::abs(offset) : offset); }

  double Between(const TilePlace& place, int64_t j, int64_t w) const {
    const attention::Order& order = plan_.order();
    if (listed_) return order.KeyPositions(place.b)[place.key + j] - order.QueryPositions(place.b)[place.queries[w]];
    return static_cast<double>(first_ + place.key + j - place.queries[w]);
  }

  static constexpr hn::ScalableTag<T> d_{};
  const Call& call_;
  const SlopeBias& bias_;
  const attention::Plan& plan_;
  int64_t chunk_ = 0;  // of the panel at hand
  bool listed_ = false;
  int64_t first_ = 0;
  bool centres_ = false;
  double low_ = 0, high_ = 0;  // the lowest and the highest position of a key of batch row row_
  int64_t row_ = -1;
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
