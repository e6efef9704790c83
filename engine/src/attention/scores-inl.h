// The scores of a tile, in powers of two: what forward, backward and the weights on request begin with.
//   x[j, w] = log2(e) * (cap(scale q.k + content) + biases)
// Nothing is subtracted yet: a score keeps its own size until the reference of its row is taken from it, so that a bias as low
// as numbers go swallows the product beside it in every tile alike.
#if defined(HEED_ATTENTION_SCORES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_SCORES_INL_H_
#undef HEED_ATTENTION_SCORES_INL_H_
#else
#define HEED_ATTENTION_SCORES_INL_H_
#endif

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <numbers>
#include <span>

#include "attention/panel-inl.h"
#include "attention/position_hook-inl.h"
#include "attention/problem.h"
#include "attention/score_products-inl.h"
#include "attention/sight-inl.h"
#include "simd/exp2-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
class Scores {
 public:
  Scores(const attention::Problem& problem, attention::ScoreScratch<T>& scratch, std::span<PositionHook<T>* const> hooks)
      : problem_(problem),
        shape_(problem.plan.shape()),
        scratch_(scratch),
        hooks_(hooks),
        sight_(problem, scratch.lanes, hooks),
        keys_(scratch.keys, shape_.head_dim) {
    for (PositionHook<T>* hook : hooks) {
      content_ |= hook->term() == Term::kContent;
      transforms_ |= hook->term() == Term::kScore;
      rows_read_ |= hook->term() != Term::kBias;
      adds_ |= hook->term() == Term::kContent || hook->term() == Term::kBias;
      if (hook->term() == Term::kProduct) multiplier_ = hook;
      if (hook->surveys()) surveyor_ = hook;
      weighs_ |= hook->weighs();
    }
    Choose(problem, scratch, keys_, Factor(), multiplier_ != nullptr, products_);
  }

  // Whether there are no hooks.
  bool alone() const { return hooks_.empty(); }
  // Whether any hook reads rows of the panel or the tile in the type of computation.
  bool rows_read() const { return rows_read_; }
  // Whether any hook makes other scores of the whole.
  bool transforms() const { return transforms_; }
  // Whether scores of few queries may be made in rows, one a query, see FillRows: with two hooks the order of a score's sum
  // would be another than in tiles.
  bool MadeInRows() const {
    const auto adds = [](const PositionHook<T>* hook) { return hook->adds_to_rows(); };
    return !problem_.attention.softcap && hooks_.size() <= 1 && std::all_of(hooks_.begin(), hooks_.end(), adds);
  }
  // Whether any hook works on weights.
  bool weighs() const { return weighs_; }

  // What the panel's lanes see, from Begin on.
  Sight<T>& sight() { return sight_; }

  // Packs the panel's queries and takes the keys `walked` of head `kv_head`.
  void Begin(const Panel& panel, int64_t kv_head, const attention::KeyRange& walked) {
    const attention::Plan& plan = problem_.plan;
    products_->Begin(panel, {problem_.q, plan, Factor(), Uniform::kSkip, scratch_.rows}, rows_read_);
    keys_.Walk(KeysOf(plan, problem_.k, panel.b, kv_head), walked.begin, walked.end);
    sight_.Begin(panel.b);
  }

  // Other keys of the same head.
  void Walk(const attention::KeyRange& walked) { keys_.Walk(keys_.stored(), walked.begin, walked.end); }
  attention::KeyRange walked() const { return keys_.walked(); }

  // The keys of a place in the type of computation; and those of the walk.
  HeadRows<const T> Keys(const TilePlace& place) { return keys_.At(place.tile_key, place.key, place.keys); }
  RowCache<T>& keys() { return keys_; }

  // Asks for the caller's rows of keys begin .. end - 1.
  void AskForKeys(int64_t begin, int64_t end) { AskFor(keys_.stored(), begin, end - begin, shape_.head_dim, scratch_.ahead); }

  // Shows the panel's keys of the range, behind which it looks at none, to whom has to see them before the first tile. tile:
  // room for a tile of scores. Whoever then fills tiles of the range may do so in any order.
  void Survey(const Panel& panel, int64_t tile_keys, const attention::KeyRange& keys, T* tile) {
    if (!surveyor_ || keys.empty()) return;
    const attention::KeyRange before = walked();
    Walk({keys.begin / tile_keys * tile_keys, keys.end});
    sight_.ForEachTileBackwards(panel, tile_keys, keys, [&](const TileSight& seen) HWY_ATTR { return SurveyTile(seen, tile); });
    Walk(before);
  }

  // The lanes of a tile whose products the backward pass makes: hooks sum over idle lanes too, which then hold 0.
  int64_t BackwardLanes(const TilePlace& place) const {
    return alone() ? ProductWidth(d_, place.used_end() - place.lane_begin) : place.lanes();
  }

  // The scores of a strip, whatever they are where pairs are hidden. d_keys: where hooks add to the gradient of its keys, in
  // the backward pass.
  void Fill(const StripSight& strip, T* scores, T* d_keys = nullptr) {
    Fill(strip, BackwardLanes(strip.place), Asks::kQueue, scores, d_keys);
  }

  void Mask(const TilePlace& place, T hidden, T* tile) const { MaskTile(d_, scratch_.lanes, place, hidden, tile); }

  // The scores of a whole tile, -inf where a lane may not look.
  void FillTile(const TileSight& tile, T* scores, Asks asks) {
    FillTile(tile, scores, asks, [](const StripSight&) {});
  }
  // The same; then(strip) comes after the scores of each strip of which some is seen, before the next one's.
  template <class Then>
  void FillTile(const TileSight& tile, T* scores, Asks asks, const Then& then) {
    constexpr T kHidden = -std::numeric_limits<T>::infinity();
    for (const StripSight& strip : tile.strips()) {
      const TilePlace& place = strip.place;
      T* rows = RowsOfStrip(scores, place);
      if (tile.masked() || strip.seen == Seen::kNone) HideAround(tile, strip, rows);
      if (strip.seen == Seen::kNone) continue;
      // Whoever takes a tile works lane by lane, so what idle lanes hold goes nowhere.
      Fill(strip, ProductWidth(d_, place.used_end() - place.lane_begin), asks, rows, nullptr);
      if (strip.seen == Seen::kSome) Mask(place, kHidden, rows);
      then(strip);
    }
  }

  // rows[x, j] = the scores of query x and key j of a strip of few queries, -inf where it may not look, where they are made in
  // rows. Returns how much is seen.
  Seen FillRows(const StripSight& strip, T* rows) {
    const TilePlace& place = strip.place;
    MultiplyRows(problem_, keys_, place, scratch_, rows);
    for (int64_t w = 0; w < place.used; ++w) {
      T* row = rows + w * simd::kFewTileKeys;
      for (PositionHook<T>* hook : hooks_) hook->AddToRow(place, w, row);
      if (strip.seen == Seen::kSome) sight_.HideInRow(place, w, row);
    }
    return sight_.hides() ? Seen::kSome : strip.seen;
  }

  // Who makes the products of queries and keys in the place of the kernels; null if nobody does.
  PositionHook<T>* multiplier() const { return multiplier_; }

  // From the gradient of the finished scores to that of scale * q.k, telling every hook its own on the way.
  void Accumulate(const TilePlace& place, T* d_scores) {
    for (std::size_t x = hooks_.size(); x-- > 0;)
      if (hooks_[x]->term() == Term::kScore) hooks_[x]->TransformGradient(place, d_scores);
    for (PositionHook<T>* hook : hooks_)
      if (hook->term() == Term::kBias) hook->Accumulate(place, d_scores);
    if (problem_.attention.softcap) Uncap(place, d_scores);
    if (!content_) return;
    for (PositionHook<T>* hook : hooks_)
      if (hook->term() == Term::kContent) hook->Accumulate(place, d_scores);
  }

  // From the tangent of scale * q.k, in powers of two, to that of the finished scores in nats, right after the scores of the
  // same place were made: derivatives multiply both ways alike, so a tangent takes the way of gradients from its other end.
  // products, before: where what AccumulateTangent needs is kept, null where nobody does.
  void PassTangent(const TilePlace& place, T* tangent, T* products = nullptr, T* before = nullptr) {
    if (problem_.attention.softcap) {
      if (products) CopyTile(place, tangent, products);
      Uncap(place, tangent);
    }
    const auto to_nats = hn::Set(d_, std::numbers::ln2_v<T>);
    ForEachVector(d_, place, [&](int64_t at, int64_t, int64_t) HWY_ATTR {
      hn::Store(hn::Mul(hn::Load(d_, tangent + at), to_nats), d_, tangent + at);
    });
    for (PositionHook<T>* hook : hooks_)
      if (hook->term() == Term::kBias) hook->AddToTangent(place, tangent);
    if (before && transforms_) CopyTile(place, tangent, before);
    for (PositionHook<T>* hook : hooks_)
      if (hook->term() == Term::kScore) hook->TransformGradient(place, tangent);
  }

  // Tiles of a place.
  struct Tangents {
    const T *products, *before;  // of scale * q.k in powers of two, and of what hooks make other scores of, in nats
    T *d_scores, *t_d_scores;    // gradients of the scores, and their tangents
  };
  // Accumulate along tangents: of both gradients, telling hooks the tangent alone. No hook is of the content.
  void AccumulateTangent(const TilePlace& place, const Tangents& tiles) {
    for (std::size_t x = hooks_.size(); x-- > 0;)
      if (hooks_[x]->term() == Term::kScore)
        hooks_[x]->TransformGradientTangent(place, tiles.before, tiles.d_scores, tiles.t_d_scores);
    for (PositionHook<T>* hook : hooks_)
      if (hook->term() == Term::kBias) hook->Accumulate(place, tiles.t_d_scores);
    if (!problem_.attention.softcap) return;
    Uncap(place, tiles.t_d_scores);
    Bend(place, tiles);
    Uncap(place, tiles.d_scores);
  }

  // q.k becomes a score in powers of two.
  T Factor() const { return static_cast<T>(problem_.plan.scale() * std::numbers::log2e); }

 private:
  void Fill(const StripSight& strip, int64_t lanes, Asks asks, T* scores, T* d_keys) {
    const TilePlace& place = strip.place;
    FillTerms(place, lanes, asks, scores, d_keys);
    if (!transforms_) return;
    for (PositionHook<T>* hook : hooks_)
      if (hook->term() == Term::kScore) hook->Transform(place, Visible(strip), scores);
    ClearIdle(place, scores);
  }

  // Everything but what makes other scores of the whole, for the first lanes of a place.
  void FillTerms(const TilePlace& place, int64_t lanes, Asks asks, T* scores, T* d_keys) {
    const HeadRows<const T> rows = rows_read_ ? Keys(place) : HeadRows<const T>{nullptr, 0, 1};
    const TileArrays<T> arrays{.keys = rows.data, .key_stride = rows.row_stride, .d_keys = d_keys};
    for (PositionHook<T>* hook : hooks_) hook->BeginTile(place, arrays);
    const bool capped = problem_.attention.softcap.has_value();
    bool empty = capped || !adds_;
    if (!empty) {
      empty = AddHooks(Term::kContent, place, true, scores);
      empty = AddHooks(Term::kBias, place, empty, scores);
    }
    if (multiplier_) {
      multiplier_->Multiply(place, empty, scores);
    } else {
      products_->Multiply(place, lanes, {scores, place.panel, !empty}, asks);
    }
    if (capped) {
      AddHooks(Term::kContent, place, false, scores);
      Cap(place, scores);
      AddHooks(Term::kBias, place, false, scores);
    }
  }

  const uint64_t* Visible(const StripSight& strip) const {
    return strip.seen == Seen::kAll ? nullptr : VisibleOf(scratch_.lanes, strip.place);
  }

  // Returns whether the surveyor asks for more.
  bool SurveyTile(const TileSight& seen, T* tile) {
    bool more = true;
    for (std::size_t x = seen.strips().size(); more && x-- > 0;) {
      const StripSight& strip = seen.strips()[x];
      if (strip.seen == Seen::kNone) continue;
      const TilePlace& place = strip.place;
      T* scores = RowsOfStrip(tile, place);
      FillTerms(place, place.lanes(), Asks::kQueue, scores, nullptr);
      const uint64_t* visible = Visible(strip);
      for (PositionHook<T>* hook : hooks_) {
        if (hook == surveyor_) break;
        if (hook->term() == Term::kScore) hook->Transform(place, visible, scores);
      }
      more = surveyor_->Survey(place, visible, scores);
    }
    return more;
  }

  // Lets the hooks of one kind add; into an empty tile the first of them stores. Returns whether it still is empty.
  bool AddHooks(Term term, const TilePlace& place, bool empty, T* scores) {
    for (PositionHook<T>* hook : hooks_) {
      if (hook->term() != term) continue;
      hook->AddToScores(place, empty, scores);
      empty = false;
    }
    return empty;
  }

  // -inf in the rows of a strip for the lanes of the tile that see none of it.
  static void HideAround(const TileSight& tile, const StripSight& strip, T* rows) {
    const TilePlace& place = strip.place;
    const bool all = strip.seen == Seen::kNone;
    const int64_t begin = tile.lane_begin(), end = tile.lane_end();
    for (int64_t j = 0; j < place.keys; ++j) {
      T* row = rows + j * place.panel;
      std::fill(row + begin, row + (all ? end : place.lane_begin), -std::numeric_limits<T>::infinity());
      std::fill(row + (all ? end : place.lane_end), row + end, -std::numeric_limits<T>::infinity());
    }
  }

  // Lanes without a query, or with one that sees nothing, hold what was made of nothing: NaN perhaps, which no weight of 0
  // takes away.
  void ClearIdle(const TilePlace& place, T* scores) const {
    const int64_t step = static_cast<int64_t>(hn::Lanes(d_));
    for (int64_t w = place.lane_begin; w < place.lane_end; w += step) {
      if ((scratch_.lanes.idle >> w & attention::LowBits(step)) == 0) continue;
      const auto idle = MaskOf(d_, scratch_.lanes.idle, w);
      for (int64_t j = 0; j < place.keys; ++j) {
        T* at = scores + j * place.panel + w;
        hn::Store(hn::IfThenZeroElse(idle, hn::Load(d_, at)), d_, at);
      }
    }
  }

  // scores = log2(e) cap tanh(score / cap); keeps the tanh for the gradient.
  void Cap(const TilePlace& place, T* scores) {
    const double cap = *problem_.attention.softcap * std::numbers::log2e;
    const auto inverse = hn::Set(d_, static_cast<T>(1 / cap)), height = hn::Set(d_, static_cast<T>(cap));
    ForEachVector(d_, place, [&](int64_t at, int64_t, int64_t) HWY_ATTR {
      const auto tanh = TanhOf(d_, hn::Mul(hn::Load(d_, scores + at), inverse));
      hn::Store(tanh, d_, scratch_.tanh + at);
      hn::Store(hn::Mul(height, tanh), d_, scores + at);
    });
  }

  // d(cap tanh(x / cap)) / dx = 1 - tanh^2; 0 stays 0 whatever the score was.
  void Uncap(const TilePlace& place, T* d_scores) {
    ForEachVector(d_, place, [&](int64_t at, int64_t, int64_t) HWY_ATTR {
      const auto tanh = hn::Load(d_, scratch_.tanh + at), gradient = hn::Load(d_, d_scores + at);
      const auto slope = hn::NegMulAdd(tanh, tanh, hn::Set(d_, T{1}));
      hn::Store(hn::IfThenZeroElse(hn::Eq(gradient, hn::Zero(d_)), hn::Mul(gradient, slope)), d_, d_scores + at);
    });
  }

  // What the second derivative of the soft-cap, -2 tanh (1 - tanh^2) / cap, adds to the tangent of a gradient.
  void Bend(const TilePlace& place, const Tangents& tiles) const {
    const double cap = *problem_.attention.softcap * std::numbers::log2e;
    const auto factor = hn::Set(d_, static_cast<T>(-2 / cap)), one = hn::Set(d_, T{1});
    ForEachVector(d_, place, [&](int64_t at, int64_t, int64_t) HWY_ATTR {
      const auto tanh = hn::Load(d_, scratch_.tanh + at), gradient = hn::Load(d_, tiles.d_scores + at);
      const auto bend = hn::Mul(hn::Mul(factor, tanh), hn::NegMulAdd(tanh, tanh, one));
      const auto added = hn::Mul(gradient, hn::Mul(bend, hn::Load(d_, tiles.products + at)));
      const auto shown = hn::IfThenZeroElse(hn::Eq(gradient, hn::Zero(d_)), added);
      hn::Store(hn::Add(hn::Load(d_, tiles.t_d_scores + at), shown), d_, tiles.t_d_scores + at);
    });
  }

  static void CopyTile(const TilePlace& place, const T* from, T* to) {
    for (int64_t j = 0; j < place.keys; ++j)
      std::copy_n(from + j * place.panel + place.lane_begin, place.lanes(), to + j * place.panel + place.lane_begin);
  }

  static constexpr hn::ScalableTag<T> d_{};
  const attention::Problem& problem_;
  const Shape& shape_;
  attention::ScoreScratch<T>& scratch_;
  std::span<PositionHook<T>* const> hooks_;
  // Whether any hook is of the content, makes other scores, adds to them, reads rows, works on weights.
  bool content_ = false, transforms_ = false, adds_ = false, rows_read_ = false, weighs_ = false;
  PositionHook<T>*multiplier_ = nullptr, *surveyor_ = nullptr;
  Sight<T> sight_;
  RowCache<T> keys_;
  ChosenScores<T> products_;
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
