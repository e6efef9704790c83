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

#include <array>
#include <iterator>
#include <limits>
#include <numbers>
#include <span>

#include "attention/few_queries-inl.h"
#include "attention/mask-inl.h"
#include "attention/pair_rows-inl.h"
#include "attention/panel-inl.h"
#include "attention/position_hook-inl.h"
#include "attention/problem.h"
#include "simd/tanh-inl.h"
#include "simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using attention::Seen;

template <class T>
class Scores {
 public:
  Scores(const attention::Problem& problem, attention::ScoreScratch<T>& scratch, std::span<PositionHook<T>* const> hooks)
      : problem_(problem),
        shape_(problem.plan.shape()),
        scratch_(scratch),
        hooks_(hooks),
        few_(attention::HasFewQueries(shape_)),
        keys_(scratch.keys, shape_.head_dim),
        key_pairs_(scratch.key_pairs, shape_.head_dim) {
    for (PositionHook<T>* hook : hooks) {
      content_ |= hook->term() == Term::kContent;
      transforms_ |= hook->term() == Term::kScore;
      adds_ |= hook->term() == Term::kContent || hook->term() == Term::kBias;
      hides_ |= hook->hides();
      if (hook->term() == Term::kProduct) multiplier_ = hook;
      if (hook->surveys()) surveyor_ = hook;
      rows_read_ |= hook->term() != Term::kBias;
      weighs_ |= hook->weighs();
    }
    // With two hooks the order of a score's sum would be another than in tiles.
    in_rows_ = few_ && !problem.attention.softcap && hooks.size() <= 1;
    for (const PositionHook<T>* hook : hooks) in_rows_ &= hook->adds_to_rows();
    pairs_ = problem.pairs != attention::PairUse::kNone && !multiplier_;
    const double keys = static_cast<double>(shape_.batch * shape_.kv_heads) * static_cast<double>(shape_.kv_len);
    const auto row_bytes = static_cast<double>(shape_.head_dim + shape_.value_dim) * core::BytesOf(problem.k.element);
    far_ = keys * row_bytes > simd::kCallFarBytes;
  }

  // Whether there are no hooks.
  bool alone() const { return hooks_.empty(); }
  // Whether any hook reads rows of the panel or the tile in the type of computation.
  bool rows_read() const { return rows_read_; }
  // Whether any hook hides pairs.
  bool hides() const { return hides_; }
  // Whether any hook makes other scores of the whole.
  bool transforms() const { return transforms_; }
  // Whether any hook works on weights.
  bool weighs() const { return weighs_; }

  // Packs the panel's queries and takes the keys `walked` of head `kv_head`.
  void Begin(const Panel& panel, int64_t kv_head, const attention::KeyRange& walked) {
    const attention::Plan& plan = problem_.plan;
    const PanelSource<T> queries{.operand = problem_.q,
                                 .plan = plan,
                                 .elements = shape_.head_dim,
                                 .factor = Factor(),
                                 .uniform = Uniform::kSkip,
                                 .scratch = scratch_.rows};
    if ((!pairs_ && !few_) || rows_read_) PackColumns(panel, scratch_.lanes, queries, scratch_.queries);
    if (pairs_) PackPairColumns(panel, scratch_.lanes, queries, scratch_.query_pairs);
    if (few_) PackRows(panel, scratch_.lanes, queries, problem_.cut.head_dim, panel.used(), scratch_.few_queries);
    const auto rows = RowsOf(problem_.k, plan.ArrayRow(panel.b), kv_head, plan.FirstKey(panel.b));
    keys_.Walk(rows, walked.begin, walked.end);
    if (problem_.pairs != attention::PairUse::kNone) key_pairs_.Walk(rows, walked.begin, walked.end);
    ranks_ = plan.order().KeyRanks(panel.b);
  }

  // Whether the elements of keys stand in lanes, and not the queries. The order of a score's sum follows from that, so it is
  // the same for all passes over a shape.
  bool few() const { return few_; }
  // Whether the scores of few queries are made in rows, and not in tiles first.
  bool in_rows() const { return in_rows_; }

  // Whether the call has so many keys and values that they come from memory.
  bool far() const { return far_; }

  // Other keys of the same head.
  void Walk(const attention::KeyRange& walked) {
    keys_.Walk(keys_.stored(), walked.begin, walked.end);
    if (problem_.pairs != attention::PairUse::kNone) key_pairs_.Walk(keys_.stored(), walked.begin, walked.end);
  }
  attention::KeyRange walked() const { return keys_.walked(); }

  HeadRows<const T> Keys(const TilePlace& place) { return keys_.At(place.tile_key, place.key, place.keys); }
  // The keys of a tile, if anybody reads them in the type of computation to make scores: products of few queries and of pairs
  // do not, nor do biases.
  HeadRows<const T> KeysRead(const TilePlace& place) {
    if ((few_ || pairs_) && !content_ && !transforms_ && !multiplier_) return {nullptr, 0, 1};
    return Keys(place);
  }
  // The same keys in pairs, where the call has them.
  WalkedPairs& key_pairs() { return key_pairs_; }

  // Asks for the caller's keys behind those of a tile.
  simd::Stream After(const TilePlace& place) const {
    return StreamFrom(keys_.stored(), place.key + place.keys, shape_.head_dim);
  }

  // Asks for the caller's rows of keys begin .. end - 1.
  void AskForKeys(int64_t begin, int64_t end) { AskFor(keys_.stored(), begin, end - begin, shape_.head_dim, scratch_.ahead); }

  // Whether every pair of a tile is hidden for a reason that is known without looking at pairs.
  bool Hidden(const Strips& strips) const {
    if (!problem_.plan.judges()) return false;
    for (const TilePlace& place : strips.all())
      if (place.lanes() > 0 && Judge(place) != Seen::kNone) return false;
    return true;
  }

  // Fills lanes.visible unless everything is seen. masked: the tile crosses the edge of some query's range.
  Seen See(const TilePlace& place, bool masked) {
    if (place.lanes() == 0) return Seen::kNone;
    const Seen judged = hides_ ? Judge(place) : Seen::kAll;
    return judged == Seen::kNone ? judged : SeePairs(place, masked, judged == Seen::kSome);
  }

  // Shows the panel's keys of the range, behind which it looks at none, to whom has to see them before the first tile. tile:
  // room for a tile of scores. Whoever then fills tiles of the range may do so in any order.
  void Survey(const Panel& panel, int64_t tile_keys, const attention::KeyRange& keys, T* tile) {
    if (!surveyor_ || keys.empty()) return;
    const attention::KeyRange before = walked();
    Walk({keys.begin / tile_keys * tile_keys, keys.end});
    ForEachTileBackwards(panel, tile_keys, keys, scratch_.lanes,
                         [&](const Strips& strips) HWY_ATTR { return SurveyTile(strips, tile); });
    Walk(before);
  }

  // The lanes of a tile whose products the backward pass makes: hooks sum over idle lanes too, which then hold 0.
  int64_t BackwardLanes(const TilePlace& place) const {
    return alone() ? ProductWidth(d_, place.used_end() - place.lane_begin) : place.lanes();
  }

  // seen: what See says of the tile. d_keys: where hooks add to the gradient of its keys, in the backward pass.
  void Fill(const TilePlace& place, Seen seen, const HeadRows<const T>& rows, T* scores, T* d_keys = nullptr) {
    Fill(d_, place, seen, BackwardLanes(place), rows, scores, d_keys, scratch_.ahead);
  }
  // The same for the first lanes of the tile alone, in vectors of D.
  template <class D, class Ahead>
  void Fill(D d, const TilePlace& place, Seen seen, int64_t lanes, const HeadRows<const T>& rows, T* scores, T* d_keys,
            Ahead& ahead) {
    FillTerms(d, place, lanes, rows, scores, d_keys, ahead);
    if (!transforms_) return;
    for (PositionHook<T>* hook : hooks_)
      if (hook->term() == Term::kScore) hook->Transform(place, Visible(place, seen), scores);
    ClearIdle(place, scores);
  }

  // The keys of a place in the caller's type.
  StoredRows<const std::byte> PackedKeys(const TilePlace& place) { return keys_.Packed(place.tile_key, place.key, place.keys); }

  // rows[x, j] = the products of few queries with the keys of a place.
  void MultiplyFew(const TilePlace& place, T* rows) {
    FewScores(PackedKeys(place), far_, place.keys, scratch_.few_queries, problem_.cut.head_dim, place.used, shape_.head_dim,
              rows);
  }

  // The scores of a place of few queries where they are made in rows, -inf where a query may not look; returns how much of it
  // is seen. lanes.visible need not show it: that is what See is for.
  Seen FillRows(const TilePlace& place, bool masked, T* rows) {
    constexpr T kHidden = -std::numeric_limits<T>::infinity();
    if (hides_ && Judge(place) == Seen::kNone) return Seen::kNone;
    const Seen seen = masked && seen_in_ranges() ? Seen::kSome : SeePairs(place, masked, false);
    if (seen == Seen::kNone) return seen;
    MultiplyFew(place, rows);
    for (int64_t w = 0; w < place.used; ++w) {
      T* row = rows + w * simd::kFewTileKeys;
      for (PositionHook<T>* hook : hooks_) hook->AddToRow(place, w, row);
      if (seen == Seen::kSome) HideInRow(place, w, kHidden, row);
    }
    return hides_ ? Seen::kSome : seen;
  }
  // row[j] = `hidden` where lane w may not look, 0 where it looks at all alike, in a place of which FillRows has said kSome.
  void HideInRow(const TilePlace& place, int64_t w, T hidden, T* row) const {
    if (seen_in_ranges()) return MaskRowOutside(scratch_.lanes, place, w, hidden, row);
    MaskRow(scratch_.lanes, place, w, hidden, row);
  }

  // Tells whoever has added to a row the gradient of its scores.
  void AccumulateRow(const TilePlace& place, int64_t w, const T* d_row) {
    for (PositionHook<T>* hook : hooks_) hook->AccumulateRow(place, w, d_row);
  }

  void Mask(const TilePlace& place, T hidden, T* tile) const { MaskTile(d_, scratch_.lanes, place, hidden, tile); }

  // The scores of a whole tile, -inf where a lane may not look; returns how much of each strip is seen. ahead(strip): what to
  // do for memory while the products of its keys are made.
  template <class D, class Ahead>
  std::array<Seen, kMaxStrips> FillTile(D d, const Strips& strips, T* scores, const Ahead& ahead) {
    constexpr T kHidden = -std::numeric_limits<T>::infinity();
    std::array<Seen, kMaxStrips> seen{};
    for (std::size_t x = 0; x < strips.count; ++x) {
      const TilePlace& place = strips.places[x];
      T* rows = RowsOfStrip(scores, place);
      seen[x] = See(place, strips.masked);
      if (strips.masked || seen[x] == Seen::kNone) HideAround(strips, place, seen[x] == Seen::kNone, rows);
      if (seen[x] == Seen::kNone) continue;
      // Whoever takes a tile works lane by lane, so what idle lanes hold goes nowhere.
      const int64_t lanes = ProductWidth(d, place.used_end() - place.lane_begin);
      auto&& memory = ahead(place);
      Fill(d, place, seen[x], lanes, KeysRead(place), rows, nullptr, memory);
      if (seen[x] == Seen::kSome) Mask(place, kHidden, rows);
    }
    return seen;
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

 private:
  // Whether what a query sees is a range of keys, so that nobody needs to know of each key, as far as hooks hide none.
  bool seen_in_ranges() const { return !ranks_ && !problem_.attention.mask.present(); }

  // Fills lanes.visible unless everything is seen. hides: hooks are asked for what they hide.
  Seen SeePairs(const TilePlace& place, bool masked, bool hides) {
    attention::Lanes<T>& lanes = scratch_.lanes;
    const Attention& attention = problem_.attention;
    const bool dense = attention.mask.present() || hides;
    // Lanes without a query meet what all others meet where these see everything.
    const uint64_t all = LaneBits(place), hidden = lanes.hidden & all, spare = hidden & ~attention::LowBits(place.used);
    if (!masked && !dense && hidden == spare) return Seen::kAll;
    uint64_t* visible = VisibleOf(lanes, place);
    if (masked) {
      SeeRanges(d_, lanes, place, ranks_);
    } else {
      std::fill_n(visible, place.keys, all);
    }
    if (attention.mask.present()) HideByMask(place);
    for (PositionHook<T>* hook : hooks_)
      if (hides && hook->hides()) hook->Hide(place, visible);
    uint64_t any = 0, every = all;
    for (int64_t j = 0; j < place.keys; ++j) {
      if (dense) visible[j] |= lanes.uniform & all;
      visible[j] &= ~hidden;
      any |= visible[j];
      every &= visible[j] | spare;
    }
    if (any == 0) return Seen::kNone;
    return every == all && lanes.uniform == 0 ? Seen::kAll : Seen::kSome;
  }

  // q.k becomes a score in powers of two.
  T Factor() const { return static_cast<T>(problem_.plan.scale() * std::numbers::log2e); }

  // Everything but what makes other scores of the whole.
  template <class D, class Ahead>
  void FillTerms(D d, const TilePlace& place, int64_t lanes, const HeadRows<const T>& rows, T* scores, T* d_keys,
                 Ahead& ahead) {
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
    } else if (few_) {
      MultiplyFew(place, scratch_.few_scores);
      AddRowsToTile(scratch_.few_scores, place.keys, place.used, Target<T>{scores, place.panel, !empty});
    } else if (pairs_) {
      MultiplyPairs(place, lanes, empty, scores);
    } else {
      const Target<T> tile{scores + place.lane_begin, place.panel, !empty};
      Product(d, Scalars<T>{rows.data, rows.row_stride, 1}, {scratch_.queries + place.lane_begin, place.panel},
              {place.keys, shape_.head_dim, lanes}, tile, ahead);
    }
    if (capped) {
      AddHooks(Term::kContent, place, false, scores);
      Cap(place, scores);
      AddHooks(Term::kBias, place, false, scores);
    }
  }

  void MultiplyPairs(const TilePlace& place, int64_t lanes, bool empty, T* scores) {
    if constexpr (sizeof(T) == sizeof(float)) {
      const simd::PairScalars keys = key_pairs_.AlongElements(place.tile_key, place.key);
      const simd::PairVectors queries{scratch_.query_pairs + place.lane_begin, place.panel};
      const int64_t width = attention::RoundUp(lanes, attention::kLaneQuantum);
      // Where a key is met by few queries its product waits for memory: keys of the next tile are asked for meanwhile.
      const bool waits = place.used <= kFewLanes;
      const int64_t step = waits ? kKeysAtOnce : place.keys;
      for (int64_t j = 0; j < place.keys; j += step) {
        const int64_t count = std::min(step, place.keys - j);
        if (waits) key_pairs_.AskBehind(place.key + j, count);
        PairProduct({keys.data + j * keys.row_stride, keys.row_stride, keys.step_stride}, queries,
                    {count, shape_.head_dim, width},
                    {scores + j * place.panel + place.lane_begin, place.panel, !empty, Factor()}, scratch_.ahead);
      }
    }
  }

  const uint64_t* Visible(const TilePlace& place, Seen seen) const {
    return seen == Seen::kAll ? nullptr : VisibleOf(scratch_.lanes, place);
  }

  // Returns whether the surveyor asks for more.
  bool SurveyTile(const Strips& strips, T* tile) {
    if (Hidden(strips)) return true;
    bool more = true;
    for (std::size_t x = strips.count; more && x-- > 0;) {
      const TilePlace& place = strips.places[x];
      const Seen seen = See(place, strips.masked);
      if (seen == Seen::kNone) continue;
      T* scores = RowsOfStrip(tile, place);
      FillTerms(d_, place, place.lanes(), Keys(place), scores, nullptr, scratch_.ahead);
      const uint64_t* visible = Visible(place, seen);
      for (PositionHook<T>* hook : hooks_) {
        if (hook == surveyor_) break;
        if (hook->term() == Term::kScore) hook->Transform(place, visible, scores);
      }
      more = surveyor_->Survey(place, visible, scores);
    }
    return more;
  }

  Seen Judge(const TilePlace& place) const {
    const int64_t last = place.used_end() - 1;
    // Queries that look at all keys alike are not asked for what they may see.
    const bool uniform = (scratch_.lanes.uniform & LaneBits(place)) != 0;
    if (!problem_.plan.judges() || uniform || last < place.lane_begin) return Seen::kSome;
    if (place.one_head) {
      return problem_.plan.Judge({.b = place.b,
                                  .heads = {place.head, place.head + 1},
                                  .queries = {place.queries[place.lane_begin], place.queries[last] + 1},
                                  .keys = {place.key, place.key + place.keys}});
    }
    // Heads side by side: each has all queries of the panel.
    return problem_.plan.Judge({.b = place.b,
                                .heads = {place.head, place.heads[place.used - 1] + 1},
                                .queries = {place.query, place.queries[place.used - 1] + 1},
                                .keys = {place.key, place.key + place.keys}});
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
  static void HideAround(const Strips& strips, const TilePlace& place, bool all, T* rows) {
    const int64_t begin = strips.lane_begin(), end = strips.lane_end();
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

  void HideByMask(const TilePlace& place) {
    constexpr int64_t kBlock = 64;
    const bool few = place.used_end() - place.lane_begin <= simd::kFewMaskedLanes;
    for (int64_t first = 0; first < place.keys; first += kBlock) {
      const int64_t count = std::min(kBlock, place.keys - first);
      uint64_t* visible = VisibleOf(scratch_.lanes, place) + first;
      // Of each lane the keys that it sees, then of each key the lanes.
      uint64_t seen[kBlock];
      if (!few) std::fill(std::begin(seen), std::end(seen), ~uint64_t{0});
      uint64_t every = ~uint64_t{0};
      for (int64_t w = place.lane_begin; w < place.used_end(); ++w) {
        int64_t stride = 0;
        const bool* row = DenseRow(problem_.attention.mask.values, place, w, stride);
        seen[w] = BitsOfRow(row + first * stride, stride, count) | ~attention::LowBits(count);
        if (few && seen[w] != ~uint64_t{0}) HideFromLane(w, seen[w], count, visible);
        every &= seen[w];
      }
      if (few || every == ~uint64_t{0}) continue;
      TransposeBits(seen);
      for (int64_t j = 0; j < count; ++j) visible[j] &= seen[j];
    }
  }

  // scores = log2(e) cap tanh(score / cap); keeps the tanh for the gradient.
  void Cap(const TilePlace& place, T* scores) {
    const double cap = *problem_.attention.softcap * std::numbers::log2e;
    const auto inverse = hn::Set(d_, static_cast<T>(1 / cap)), height = hn::Set(d_, static_cast<T>(cap));
    const int64_t step = static_cast<int64_t>(hn::Lanes(d_));
    for (int64_t j = 0; j < place.keys; ++j)
      for (int64_t w = place.lane_begin; w < place.lane_end; w += step) {
        const int64_t at = j * place.panel + w;
        const auto tanh = TanhOf(d_, hn::Mul(hn::Load(d_, scores + at), inverse));
        hn::Store(tanh, d_, scratch_.tanh + at);
        hn::Store(hn::Mul(height, tanh), d_, scores + at);
      }
  }

  // d(cap tanh(x / cap)) / dx = 1 - tanh^2; 0 stays 0 whatever the score was.
  void Uncap(const TilePlace& place, T* d_scores) {
    const int64_t step = static_cast<int64_t>(hn::Lanes(d_));
    for (int64_t j = 0; j < place.keys; ++j)
      for (int64_t w = place.lane_begin; w < place.lane_end; w += step) {
        const int64_t at = j * place.panel + w;
        const auto tanh = hn::Load(d_, scratch_.tanh + at), gradient = hn::Load(d_, d_scores + at);
        const auto slope = hn::NegMulAdd(tanh, tanh, hn::Set(d_, T{1}));
        hn::Store(hn::IfThenZeroElse(hn::Eq(gradient, hn::Zero(d_)), hn::Mul(gradient, slope)), d_, d_scores + at);
      }
  }

  static constexpr hn::ScalableTag<T> d_{};
  // Queries that a vector holds twice over, and the rows of one register tile of one vector of queries.
  static constexpr int64_t kFewLanes = 8, kKeysAtOnce = 12;
  const attention::Problem& problem_;
  const Shape& shape_;
  attention::ScoreScratch<T>& scratch_;
  std::span<PositionHook<T>* const> hooks_;
  // Whether any hook is of the content, hides pairs, makes other scores, adds to them.
  bool content_ = false, hides_ = false, transforms_ = false, adds_ = false;
  bool few_, far_ = false, in_rows_ = false, pairs_ = false, rows_read_ = false, weighs_ = false;
  PositionHook<T>*multiplier_ = nullptr, *surveyor_ = nullptr;
  WalkedRows<T> keys_;
  WalkedPairs key_pairs_;
  const int32_t* ranks_ = nullptr;
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
