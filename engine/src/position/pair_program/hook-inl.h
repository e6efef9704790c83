// Programs at work on a tile: a score is made of the score, a pair is hidden, and gradients go the way back, strip by strip.
#if defined(HEED_POSITION_PAIR_PROGRAM_HOOK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_POSITION_PAIR_PROGRAM_HOOK_INL_H_
#undef HEED_POSITION_PAIR_PROGRAM_HOOK_INL_H_
#else
#define HEED_POSITION_PAIR_PROGRAM_HOOK_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <numbers>
#include <optional>

#include "attention/mask-inl.h"
#include "attention/position_hook-inl.h"
#include "hwy/highway.h"
#include "position/offset-inl.h"
#include "position/pair_program/scheme.h"
#include "position/pair_program/strip-inl.h"
#include "simd/lane_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
class PairProgramHook final : public PositionHook<T> {
 public:
  using Call = position::PairProgramCall<T>;
  PairProgramHook(const Call& call, const typename Call::Scratch& scratch, const position::HookPlace&)
      : call_(call), score_(call.score()), scratch_(scratch) {
    if (score_) forward_.emplace(score_->code(), scratch.score);
    if (score_ && scratch.score_nats) backward_.emplace(score_->gradient_code(), scratch.gradient);
    if (score_ && score_->curvature_code()) curvature_.emplace(*score_->curvature_code(), scratch.curvature);
    reads_nats_ = score_ && score_->reads_nats();
    if (call.mask()) mask_.emplace(*call.mask(), scratch.mask);
  }

  Term term() const override { return Term::kScore; }
  bool hides() const override { return mask_.has_value(); }

  void Begin(const PanelArrays<T>& panel) override {
    block_ = panel.block;
    chunk_ = panel.chunk;
  }

  void Hide(const TilePlace& place, uint64_t* visible) override {
    ForEachStrip(*mask_, place, {}, [&](int64_t first, const position::StripExtent& extent) HWY_ATTR {
      const StripSource<T> truths = mask_->template result<T>(0);
      const int64_t step = static_cast<int64_t>(hn::Lanes(d_));
      for (int64_t j = 0; j < extent.keys; ++j)
        for (int64_t w = extent.lane_begin; w < extent.lane_end; w += step)
          visible[first + j] &= ~BitsOf(d_, hn::Eq(hn::LoadU(d_, truths.At(j, w)), hn::Zero(d_)), w);
    });
  }

  void Transform(const TilePlace& place, const uint64_t*, T* scores) override {
    if (!score_) return;
    if (score_->additive()) {
      AddBias(place, scores);
      return;
    }
    T* given = scratch_.score_nats ? scratch_.score_nats : scores;
    if (reads_nats_) {
      const auto to_nats = hn::Set(d_, std::numbers::ln2_v<T>);
      ForEachVector(d_, place, [&](int64_t at, int64_t, int64_t) HWY_ATTR {
        hn::Store(hn::Mul(hn::Load(d_, scores + at), to_nats), d_, given + at);
      });
    }
    const auto factor = hn::Set(d_, static_cast<T>(score_->factor()));
    ForEachStrip(*forward_, place, {.score = given, .bits = scores},
                 [&](int64_t first, const position::StripExtent& extent) HWY_ATTR {
                   const StripSource<T> result = forward_->template result<T>(0);
                   MapStrip(
                       extent, scores + first * place.panel,
                       [factor](hn::Vec<D> nats) HWY_ATTR { return NatsToBits(d_, hn::Mul(nats, factor)); }, result);
                   Keep(place, first, extent);
                 });
  }

  void TransformGradient(const TilePlace& place, T* d_scores) override {
    if (!score_) return;
    const position::BackwardCode& backward = score_->backward();
    if (!backward_) {
      if (backward.severed)
        ForEachVector(d_, place, [&](int64_t at, int64_t, int64_t) HWY_ATTR { hn::Store(hn::Zero(d_), d_, d_scores + at); });
      return;
    }
    const std::size_t count = backward.given.size();
    for (std::size_t x = 0; x < count; ++x)
      if (IsGradient(x)) GatherGiven(place, d_scores, x);
    const PairArrays<T> own{.score = scratch_.score_nats, .gradient = d_scores, .kept = scratch_.kept};
    ForEachStrip(*backward_, place, own, [&](int64_t first, const position::StripExtent& extent) HWY_ATTR {
      // Where nothing arrives nothing is passed on, whatever the derivative is: a pair that is hidden may have a score of NaN.
      const auto passed = [](hn::Vec<D> arriving, hn::Vec<D> gradient)
                              HWY_ATTR { return hn::IfThenZeroElse(hn::Eq(arriving, hn::Zero(d_)), gradient); };
      T* rows = d_scores + first * place.panel;
      const StripSource<T> arriving{rows, place.panel, 1};
      const auto result = [&](int index) { return backward_->template result<T>(static_cast<std::size_t>(index)); };
      for (std::size_t x = 0; x < count; ++x)
        if (!IsGradient(x))
          MapStrip(extent, Plain(place, x) + first * place.panel, passed, arriving, result(backward.given[x].gradient));
      for (const position::ReadGradient& read : backward.reads) Scatter(place, extent, read, rows);
      if (backward.tables_move) {
        MapStrip(
            extent, rows, [](hn::Vec<D> tangent) HWY_ATTR { return tangent; }, result(backward.score));
      } else if (backward.score >= 0) {
        MapStrip(extent, rows, passed, arriving, result(backward.score));
      } else if (backward.severed) {
        for (int64_t j = 0; j < extent.keys; ++j)
          std::fill(rows + j * place.panel + extent.lane_begin, rows + j * place.panel + extent.lane_end, T{0});
      }
    });
    for (std::size_t x = 0; x < count; ++x)
      if (!IsGradient(x)) GatherGiven(place, Plain(place, x), x);
  }

  void TransformGradientTangent(const TilePlace& place, const T* before, T* d_scores, T* t_d_scores) override {
    TransformGradient(place, t_d_scores);
    if (curvature_) {
      const PairArrays<T> own{.score = scratch_.score_nats, .gradient = d_scores, .kept = before};
      ForEachStrip(*curvature_, place, own, [&](int64_t first, const position::StripExtent& extent) HWY_ATTR {
        const StripSource<T> arriving{d_scores + first * place.panel, place.panel, 1};
        const StripSource<T> so_far{t_d_scores + first * place.panel, place.panel, 1};
        // As in TransformGradient.
        const auto add = [](hn::Vec<D> gradient, hn::Vec<D> sum, hn::Vec<D> bend)
                             HWY_ATTR { return hn::Add(sum, hn::IfThenZeroElse(hn::Eq(gradient, hn::Zero(d_)), bend)); };
        MapStrip(extent, t_d_scores + first * place.panel, add, arriving, so_far, curvature_->template result<T>(0));
      });
    }
    TransformGradient(place, d_scores);
  }

 private:
  using D = hn::ScalableTag<T>;
  static constexpr D d_{};

  // Computes the pairs of a tile strip by strip; visit(first key of the strip within the tile, its extent).
  template <class Visit>
  HWY_INLINE void ForEachStrip(PairStrips<T>& strips, const TilePlace& place, const PairArrays<T>& own, const Visit& visit) {
    for (int64_t first = 0; first < place.keys; first += strips.rows()) {
      const int64_t keys = std::min(strips.rows(), place.keys - first);
      strips.Run(place, first, keys, own);
      visit(first, strips.extent());
    }
  }

  // scores += the bias of an additive program, which is there in powers of two where it does not depend on the pair.
  void AddBias(const TilePlace& place, T* scores) {
    const bool in_bits = score_->code().result_is_given();
    ForEachStrip(*forward_, place, {}, [&](int64_t first, const position::StripExtent& extent) HWY_ATTR {
      T* rows = scores + first * place.panel;
      const StripSource<T> own{rows, place.panel, 1}, bias = forward_->template result<T>(0);
      if (in_bits) {
        MapStrip(
            extent, rows, [](hn::Vec<D> a, hn::Vec<D> b) HWY_ATTR { return hn::Add(a, b); }, own, bias);
      } else {
        MapStrip(
            extent, rows, [](hn::Vec<D> a, hn::Vec<D> b) HWY_ATTR { return hn::Add(a, NatsToBits(d_, b)); }, own, bias);
      }
      Keep(place, first, extent);
    });
  }

  // Keeps the further results of a strip for the gradient's code.
  void Keep(const TilePlace& place, int64_t first, const position::StripExtent& extent) {
    if (!backward_) return;
    for (std::size_t x = 1; x < score_->code().pairs().results.size(); ++x)
      MapStrip(
          extent, scratch_.kept + (static_cast<int64_t>(x) - 1) * simd::kTileKeys * place.panel + first * place.panel,
          [](hn::Vec<D> number) HWY_ATTR { return number; }, forward_->template result<T>(x));
  }

  // Whether the gradient of a given value is that of the result.
  bool IsGradient(std::size_t x) const {
    const auto result = static_cast<std::size_t>(score_->backward().given[x].gradient);
    return score_->gradient_code().pairs().results[result].operand.place == program::Operand::Place::kGradient;
  }
  T* Plain(const TilePlace& place, std::size_t x) const {
    return scratch_.plain + static_cast<int64_t>(x) * simd::kTileKeys * place.panel;
  }

  // The gradient of a value that does not depend on the pair, from that of all pairs of a tile [keys, panel].
  void GatherGiven(const TilePlace& place, const T* tile, std::size_t x) {
    const position::GivenGradient& given = score_->backward().given[x];
    T* part = score_->given_parts(x).At(place.b, place.head, chunk_);
    switch (given.domain.axis) {
      case program::Axis::kQuery:
        return SumOverKeys(place, tile, part + place.query);
      case program::Axis::kKey:
        return SumOverLanes(place, tile, part + place.key);
      case program::Axis::kOffset: {
        T* first = part + score_->code().form().PlaceOfOffset(place.key + place.keys - 1 - place.query);
        return SumDiagonals(d_, place, tile, scratch_.diagonals, call_.diagonals(), [&](int64_t y, T sum) { first[y] += sum; });
      }
      default: {
        LaneSums<decltype(d_)> sums;
        for (int64_t j = 0; j < place.keys; ++j)
          sums.ForEach(place.lane_begin, place.lane_end,
                       [&](int64_t w, auto& of) HWY_ATTR { of = hn::Add(of, hn::Load(d_, tile + j * place.panel + w)); });
        *part += sums.Total();
      }
    }
  }

  void SumOverKeys(const TilePlace& place, const T* tile, T* sums) const {
    const int64_t step = static_cast<int64_t>(hn::Lanes(d_));
    for (int64_t w = place.lane_begin; w < place.lane_end; w += step) {
      auto sum = hn::LoadU(d_, sums + w);
      for (int64_t j = 0; j < place.keys; ++j) sum = hn::Add(sum, hn::Load(d_, tile + j * place.panel + w));
      hn::StoreU(sum, d_, sums + w);
    }
  }
  void SumOverLanes(const TilePlace& place, const T* tile, T* sums) const {
    for (int64_t j = 0; j < place.keys; ++j)
      sums[j] += SumOfLanesFrom(d_, tile + j * place.panel, place.lane_begin, place.lane_end);
  }

  // Adds the gradients of a strip to the entries of tables that its pairs read, where any arrive in its rows [keys, panel].
  void Scatter(const TilePlace& place, const position::StripExtent& extent, const position::ReadGradient& read, const T* rows) {
    const int64_t used = std::min(place.used_end(), extent.lane_end);
    for (int64_t j = 0; j < extent.keys; ++j, rows += place.panel) {
      if (read.dot) {
        for (int64_t w = extent.lane_begin; w < used; ++w)
          if (rows[w] != 0) ScatterProduct(read, j, w);
      } else if (extent.lane_begin < used) {
        ScatterRow(read, j, {extent.lane_begin, used}, rows + extent.lane_begin);
      }
    }
  }
  void ScatterRow(const position::ReadGradient& read, int64_t j, const attention::KeyRange& lanes, const T* row) {
    const View<T, 4> part = score_->TablePart(read.reading.place, block_, chunk_);
    if (!part.present()) return;
    program::EntryRow entries(lanes.end - lanes.begin);
    for (std::size_t o = 0; o < read.indices.size(); ++o) {
      const std::size_t dimension = 4 - read.indices.size() + o;
      backward_->WithResult(static_cast<std::size_t>(read.indices[o]), [&](const auto& source) {
        entries.Add(part.extent[dimension], part.stride[dimension], source.At(j, lanes.begin), source.lane_stride);
      });
    }
    const StripSource<T> gradients = backward_->template result<T>(static_cast<std::size_t>(read.gradient));
    for (int64_t n = 0; n < entries.count(); ++n) {
      const T arriving = *gradients.At(j, lanes.begin + n);
      if (row[n] != 0 && arriving != 0 && entries.inside(n)) part.data[entries.at(n)] += arriving;
    }
  }
  void ScatterProduct(const position::ReadGradient& read, int64_t j, int64_t w) {
    const double arriving = backward_->NumberOf(static_cast<std::size_t>(read.gradient), j, w);
    if (arriving == 0) return;
    double indices[8]{};
    for (std::size_t o = 0; o < read.indices.size(); ++o)
      indices[o] = backward_->NumberOf(static_cast<std::size_t>(read.indices[o]), j, w);
    score_->ForEachEntry(read, indices, [&](int place, const std::array<int64_t, 4>& index, double factor) {
      const View<T, 4> part = score_->TablePart(place, block_, chunk_);
      if (part.present()) part(index[0], index[1], index[2], index[3]) += static_cast<T>(arriving * factor);
    });
  }

  const Call& call_;
  const position::ScoreCall<T>* score_;
  typename Call::Scratch scratch_;
  std::optional<PairStrips<T>> forward_, backward_, curvature_, mask_;
  bool reads_nats_ = false;
  int64_t block_ = 0, chunk_ = 0;
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
