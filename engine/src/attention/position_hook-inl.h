// What a positional scheme may do to a tile. The kernels know this interface and no scheme by name; one call serves a whole
// tile, so that it costs nothing to make it virtual and adds no instance of the kernels. docs/adding-a-scheme.md walks through
// one.
#if defined(HEED_ATTENTION_POSITION_HOOK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_POSITION_HOOK_INL_H_
#undef HEED_ATTENTION_POSITION_HOOK_INL_H_
#else
#define HEED_ATTENTION_POSITION_HOOK_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

#include "attention/plan.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Where a tile lies: `keys` keys from `key` and, in a panel of `panel` lanes, the lanes lane_begin .. lane_end - 1 (multiples
// of the lane quantum). Tiles are stored [keys, panel]; lanes outside the range are not touched. Lane w holds query queries[w]
// of head heads[w] where w < used; in a panel of one head these are `query` + w and `head`.
struct TilePlace {
  int64_t b, head;
  bool one_head;
  int64_t query, key;
  int64_t keys;
  int64_t tile_key;  // the first key of the tile that this is a strip of
  int64_t panel;
  int64_t lane_begin, lane_end;
  const int64_t *queries, *heads;
  int64_t used;

  int64_t lanes() const { return lane_end - lane_begin; }
  int64_t used_end() const { return used < lane_end ? used : lane_end; }
  bool all_used() const { return lane_begin == 0 && used <= lane_end; }
};

// The arrays of a panel that a scheme may read, or add to. [rows, panel] unless said otherwise.
template <class T>
struct PanelArrays {
  int64_t b = 0, head = 0, panel = 0, used = 0;
  uint64_t blind = 0;          // bit w: lane w has no query with weights, or one that looks at all keys alike
  const T* queries = nullptr;  // [D, panel], times scale * log2(e)
  // Forward only: [Dv, panel], and behind it what schemes asked for (position::SchemeCall::output_rows).
  T* output = nullptr;
  // Backward only: which part of the gradients the panel adds to (position::SchemeCall::LayParts).
  int64_t block = 0, chunk = 0;
  bool zero_sums = false;         // whether what Accumulate is given sums to 0 over a row, but for rounding: nobody makes other
                                  // scores of the whole, no key lacks a value, and the log-sum-exp has no gradient
  const T* query_rows = nullptr;  // [panel, D padded], times scale
  const T* d_out = nullptr;       // [Dv, panel]
  const T* d_out_rows = nullptr;  // [panel, Dv padded]
  T* d_queries = nullptr;         // [D, panel] gradient of the queries over scale; null where not wanted
};

// The arrays of a tile. Row j of the keys, without gaps between its elements, lies at keys + j * key_stride.
template <class T>
struct TileArrays {
  const T* keys;
  int64_t key_stride;
  T* d_keys;  // [keys, D padded] gradient of the keys, to be added to; backward only, null where not wanted
};

// What a scheme adds to the scores belongs to the content, under the soft-cap, or is a bias, after it; or it makes another
// score of the whole; or it makes the products of queries and keys in the place of the kernels (one hook of a call at most).
enum class Term { kContent, kBias, kScore, kProduct };

// Every method may stay as it is. A hook lives as long as its worker. Tiles of one panel come between its Begin and its End,
// and what belongs to a tile after its Hide and its BeginTile, in this order.
template <class T>
class PositionHook {
 public:
  virtual ~PositionHook() = default;

  virtual Term term() const { return Term::kBias; }
  // Whether it may hide pairs: only then Hide is called.
  virtual bool hides() const { return false; }

  virtual void Begin(const PanelArrays<T>&) {}
  virtual void End(const PanelArrays<T>&) {}
  // Clears bit w of visible[j] where the query of lane w may not look at key + j.
  virtual void Hide(const TilePlace&, uint64_t* /*visible*/) {}
  virtual void BeginTile(const TilePlace&, const TileArrays<T>&) {}

  // scores[j, w] += log2(e) * term(query of lane w, key + j); empty: the scores hold nothing yet and count as 0.
  virtual void AddToScores(const TilePlace&, bool /*empty*/, T* /*scores*/) {}
  // Of a term kBias: whether it adds to the scores of few queries where they stand in the forward pass, one row a query, which
  // spares the way through tiles. AddToRow then comes in the place of Hide, BeginTile and AddToScores:
  // row[j] += log2(e) * term(query of lane w, key + j), -inf where the key is hidden, whatever the score is.
  virtual bool adds_to_rows() const { return false; }
  virtual void AddToRow(const TilePlace&, int64_t /*w*/, T* /*row*/) {}
  // Of a term kBias, where tangents are computed: tangent[j, w] += the tangent of its term, in nats, in the place of
  // AddToScores just before.
  virtual void AddToTangent(const TilePlace&, T* /*tangent*/) {}
  // Backward: what was added to the scores has the gradient d_scores, 0 where masked.
  virtual void Accumulate(const TilePlace&, const T* /*d_scores*/) {}

  // Of a term kProduct: scores[j, w] += the product of the query of lane w, in the panel's array, and key + j; empty as above.
  // Backward: adds what the gradient of that product gives to the tile's d_keys, and to the panel's d_queries at its End; seen:
  // how much of the place is, for hidden pairs may hold NaN.
  virtual void Multiply(const TilePlace&, bool /*empty*/, T* /*scores*/) {}
  virtual void MultiplyGradient(const TilePlace&, attention::Seen, const T* /*d_scores*/) {}

  // Of a term kScore (one such hook of a call at most): whether it has to see the keys of a panel before it can say anything.
  // Then it is shown them between Begin and the first tile, from the last to the first, with the scores as Transform is given
  // them, until it says false.
  virtual bool surveys() const { return false; }
  virtual bool Survey(const TilePlace&, const uint64_t* /*visible*/, const T* /*scores*/) { return false; }

  // Of a term kScore: puts log2(e) times the new scores in the place of the old ones, after all that is added; backward, their
  // gradient in the place of that of the new ones, before Accumulate. visible: as Hide has it, null where all pairs are seen.
  // The score of a pair that depends on that pair alone has one derivative, which a tangent is multiplied by too:
  // TransformGradient then has the tangent of the old scores to begin with, right after Transform of the same place.
  virtual void Transform(const TilePlace&, const uint64_t* /*visible*/, T* /*scores*/) {}
  virtual void TransformGradient(const TilePlace&, T* /*d_scores*/) {}
  // The same of a gradient and of its tangent, of whose scheme tangents pass. before: the tangent of the old scores.
  virtual void TransformGradientTangent(const TilePlace&, const T* /*before*/, T* /*d_scores*/, T* /*t_d_scores*/) {}

  // The weights after masks and dropout (not yet normalised in the forward pass, scaled by dropout in the backward pass), where
  // it weighs.
  virtual bool weighs() const { return false; }
  virtual void Weigh(const TilePlace&, const T* /*weights*/) {}
  // Backward: adds dO . (what the scheme adds to the value) to d_weights.
  virtual void AddToWeightGradient(const TilePlace&, T* /*d_weights*/) {}
};

// InPowersOfTwo of a vector's numbers.
template <class D>
HWY_INLINE hn::Vec<D> NatsToBits(D d, hn::Vec<D> nats) {
  using T = hn::TFromD<D>;
  const auto highest = hn::Set(d, std::numeric_limits<T>::max()), magnitude = hn::Abs(nats);
  const auto too_large = hn::And(hn::Gt(magnitude, hn::Set(d, std::numeric_limits<T>::max() / std::numbers::log2e_v<T>)),
                                 hn::Le(magnitude, highest));
  const auto bits = hn::Mul(nats, hn::Set(d, std::numbers::log2e_v<T>));
  return hn::IfThenElse(too_large, hn::CopySign(highest, nats), bits);
}

// Calls visit(at, j, w) for all vectors of a tile: where they stand in it, and of which key and from which lane on.
template <class D, class Visit>
HWY_INLINE void ForEachVector(D d, const TilePlace& place, const Visit& visit) {
  const int64_t step = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t j = 0; j < place.keys; ++j)
    for (int64_t w = place.lane_begin; w < place.lane_end; w += step) visit(j * place.panel + w, j, w);
}

// tile[j, w] += term(j, w), where an empty tile counts as 0, for all vectors of a tile.
template <class D, class T, class Term>
HWY_INLINE void AddTerms(D d, const TilePlace& place, bool empty, T* tile, const Term& term) {
  ForEachVector(d, place, [&](int64_t at, int64_t j, int64_t w) HWY_ATTR {
    hn::Store(empty ? term(j, w) : hn::Add(hn::Load(d, tile + at), term(j, w)), d, tile + at);
  });
}

// row[j] = change(d, j, row[j]) for the scores of one query, in whole vectors and then one by one.
template <class T, class Change>
HWY_INLINE void ChangeRow(int64_t keys, T* row, const Change& change) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> one;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t j = 0;
  for (; j + lanes <= keys; j += lanes) hn::StoreU(change(d, j, hn::LoadU(d, row + j)), d, row + j);
  for (; j < keys; ++j) hn::StoreU(change(one, j, hn::LoadU(one, row + j)), one, row + j);
}

// AddTerms one lane at a time, for the lanes that hold a query.
template <class T, class Term>
HWY_INLINE void AddScalarTerms(const TilePlace& place, bool empty, T* tile, const Term& term) {
  for (int64_t j = 0; j < place.keys; ++j) {
    T* row = tile + j * place.panel;
    if (empty) std::fill(row + place.lane_begin, row + place.lane_end, T{0});
    for (int64_t w = place.lane_begin; w < place.used_end(); ++w) row[w] += term(j, w);
  }
}

// Calls visit(j, |position of key j of the place - position of the query of lane w|) for its keys, in their order.
template <class Visit>
HWY_INLINE void ForEachDistance(const attention::Plan& plan, const TilePlace& place, int64_t w, const Visit& visit) {
  const attention::Order& order = plan.order();
  const bool listed = order.listed();
  const double own = listed ? order.QueryPositions(place.b)[place.queries[w]]
                            : static_cast<double>(place.queries[w]) - static_cast<double>(plan.FirstOffset(place.b));
  const double* keys = listed ? order.KeyPositions(place.b) + place.key : nullptr;
  for (int64_t j = 0; j < place.keys; ++j) visit(j, std::abs((keys ? keys[j] : static_cast<double>(place.key + j)) - own));
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
