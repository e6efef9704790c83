// One call as the kernels see it: arrays, plan and the scratch areas of one worker. No SIMD here.
#ifndef HEED_ATTENTION_PROBLEM_H_
#define HEED_ATTENTION_PROBLEM_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <type_traits>

#include "attention/plan.h"
#include "core/arena.h"
#include "core/operand.h"
#include "heed/attention.h"
#include "heed/machine.h"
#include "simd/ahead.h"
#include "simd/tuning.h"

namespace heed::attention {

// Dropout in the integers that the kernels use.
struct DropoutThreshold {
  uint32_t of_65536 = 0;    // a weight is dropped where its 16 random bits are below
  double kept_scale = 1.0;  // inverse of the probability realised
};

DropoutThreshold RealisedDropout(const Dropout& dropout);

// A key of each row that has a score and no value: what a scheme may bring for all rows. The softmax of a panel takes it in
// behind all other keys. Of a row of the arrays, a query head and a query of that row: its score, in nats, and the tangent of
// that in a call with tangents.
struct ValuelessKey {
  std::function<double(int64_t row, int64_t head, int64_t query)> score, tangent;

  bool present() const { return score != nullptr; }
};

// The gradients of these scores, of as many rows of the arrays and their queries; of: that of one place whose score is given.
struct ValuelessKeyGradients {
  int64_t rows, queries;
  std::function<double(int64_t row, int64_t head, int64_t query, double score)> of;
};

// What every pass needs. T is the type of all computation, float or double; operands may hold 16-bit elements instead.
struct Problem {
  const Attention& attention;
  const Plan& plan;
  Cut cut;
  DropoutThreshold dropout;
  core::Input q, k;
  Layout layout{};
  ValuelessKey valueless_key{};  // or none

  // Whether the call has so many keys and values that they come from memory: hardware follows a stream only to the end of its
  // page, so few queries ask for what follows.
  bool ComesFromMemory() const {
    const Shape& shape = plan.shape();
    const double keys = static_cast<double>(shape.batch * shape.kv_heads) * static_cast<double>(shape.kv_len);
    return keys * static_cast<double>(shape.head_dim + shape.value_dim) * core::BytesOf(k.element) >
           static_cast<double>(MachineInUse().call_far);
  }
};

// tangents: whether the call has some.
Problem ProblemOf(const Attention& attention, const Plan& plan, const Cut& cut, const core::Input& q, const core::Input& k,
                  const ValuelessKey& valueless_key, bool tangents = false);

// The tangents of a call's inputs, without data where they are 0, and of its results.
template <class T>
struct TangentArrays {
  bool wanted = false;  // whether the call has any of these
  core::Input q{}, k{}, v{};
  core::Output out{};
  View<T, 3> lse{};  // or absent

  // Rows that a panel carries along behind the output, see TangentOutput: sum_j P (tS - r) V + sum_j P tV, then sum_j P (tS -
  // r).
  static int64_t OutputRows(const Shape& shape) { return shape.value_dim + 1; }
};

// What a forward call is given beside queries and keys. T: the type of the log-sum-exp and statistics.
template <class T>
struct ForwardOperands {
  core::Input v{};
  core::Output out{};
  View<T, 3> lse{};
  heed::Statistics<T> statistics{};
  core::Output remainder{};  // what rounding took from out, or without data
  View<T, 3> correction{};   // what rounding took from lse, or absent
  View<int64_t, 3> largest_key{};
  TangentArrays<T> tangents{};
};

// Rows of a panel's output: values, those of schemes, the mean distance or origins of tangents.
inline int64_t OutputRows(const Shape& shape, int64_t scheme_rows) { return shape.value_dim + scheme_rows + 1; }
// Elements that a split hands on: six numbers a lane and the output, as ForwardScratch has them from minus_max to output.
inline int64_t SplitPart(const Shape& shape, const Cut& cut, int64_t scheme_rows) {
  return (6 + OutputRows(shape, scheme_rows)) * cut.panel;
}

template <class T>
struct ForwardProblem : Problem, ForwardOperands<T> {
  int64_t scheme_rows = 0;  // rows that schemes, or tangents, carry along behind the output
  T* parts = nullptr;       // partial states of the splits, see SplitPart; null where panels are not split

  int64_t part_size() const { return SplitPart(plan.shape(), cut, scheme_rows); }
  // Of a split of a panel.
  T* PartOf(int64_t panel, int64_t split) const { return parts + (panel * cut.splits + split) * part_size(); }

  bool wants_statistics() const {
    const heed::Statistics<T>& of = this->statistics;
    return of.entropy.present() || of.max_weight.present() || of.mean_distance.present() || this->largest_key.present();
  }
};

// Of a backward pass whose tangent is computed, without data where they are 0.
template <class T>
struct BackwardTangentArrays {
  bool wanted = false;  // whether the call is about tangents
  core::Input q{}, k{}, v{}, out{}, d_out{};
  View<const T, 3> lse{}, d_lse{};
};

template <class T>
struct WeightsOperands {
  View<const T, 3> lse{};
  View<const int64_t, 1> heads{}, rows{};  // those asked for
  View<T, 4> weights{};                    // [B, heads, rows, Nk]
};

template <class T>
struct WeightsProblem : Problem, WeightsOperands<T> {};

// What a backward call is given beside queries and keys, and where its gradients go.
template <class T>
struct BackwardOperands {
  core::Input v{}, out{};
  View<const T, 3> lse{};
  core::Input d_out{};
  View<const T, 3> d_lse{};       // or absent
  core::Input remainder{};        // of out, or without data
  View<const T, 3> correction{};  // of lse, or absent
  StatisticGradients<T> statistics{};
  core::Output d_q{}, d_k{}, d_v{};  // without data where not wanted; of a call about tangents those of the gradients
  BackwardTangentArrays<T> tangents{};
};

// Where a backward call sums up what it cannot in the caller's rows.
template <class T>
struct BackwardSums {
  // dQ of all queries in T [Hq, queries of all rows, D], where the caller's elements are narrower; else null.
  T* d_q_wide = nullptr;
  // Partial dQ [chunks - 1, Hq, queries of all rows, D] of the chunks after the first, or null where one task walks all chunks.
  T* d_q_parts = nullptr;
  // Partial dK [pieces, Hkv, keys of all rows, D padded] and dV likewise, and whether a piece saw any of a chunk [B, Hkv,
  // chunks, pieces]; null where pieces are summed by one task, which then is the one that knows.
  T *d_k_parts = nullptr, *d_v_parts = nullptr;
  bool* piece_sees = nullptr;
};

template <class T>
struct BackwardProblem : Problem, BackwardOperands<T>, BackwardSums<T> {
  bool wants_scores = true;  // whether anything that the scores are made of has a gradient that is wanted

  bool pieces_apart() const { return this->piece_sees != nullptr; }
  // The first of a key head's rows for batch row b, of one of `parts`, rows of `width` elements.
  T* KeyPart(T* parts, int64_t width, int64_t b, int64_t kv_head, int64_t piece) const {
    return parts + ((piece * plan.shape().kv_heads + kv_head) * plan.AllKeys() + plan.KeysBefore(b)) * width;
  }
  // [pieces] of a chunk
  bool* PiecesThatSee(int64_t b, int64_t kv_head, int64_t chunk) const {
    return this->piece_sees + ((b * plan.shape().kv_heads + kv_head) * cut.chunks + chunk) * cut.pieces;
  }

  // The first of head h's rows for batch row b, D elements each.
  T* WideQueries(int64_t b, int64_t h) const { return this->d_q_wide + QueryRowIndex(b, h) * plan.shape().head_dim; }
  T* QueryPart(int64_t b, int64_t h, int64_t chunk) const {
    const Shape& shape = plan.shape();
    return this->d_q_parts + ((chunk - 1) * shape.q_heads * plan.AllQueries() + QueryRowIndex(b, h)) * shape.head_dim;
  }

 private:
  int64_t QueryRowIndex(int64_t b, int64_t h) const { return h * plan.AllQueries() + plan.QueriesBefore(b); }
};

// Panel `index` of the group of heads that begins with `head`.
struct PanelPlace {
  int64_t b, head, index;
};

// Chunk `chunk` of the keys of one key head with piece `piece` of its queries, and the block of the call's work that it belongs
// to (position/scheme.h).
struct ChunkPlace {
  int64_t b, kv_head, chunk, piece, block;
};

// Ranks of keys, as wide as the elements that stand beside them in vectors.
template <class T>
using Rank = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;

// Facts about the lanes of one panel.
template <class T>
struct Lanes {
  QueryRow* rows;                  // what each lane's query looks at; inactive where there is no query
  int64_t* query;                  // which query of its batch row stands in each lane
  int64_t* head;                   // and of which head
  T *first, *last;                 // the range of its row relative to the tile at hand
  Rank<T>*rank_first, *rank_last;  // the ranks that its query may look at
  uint64_t* visible;               // [tile] bit w: lane w may look at the key
  uint64_t uniform;                // bit w: the query of lane w looks at all keys alike
  uint64_t idle;                   // bit w: lane w has no query that looks at any key or, backward, whose weights are not all 0
  uint64_t hidden;                 // bit w: lane w sees nothing of any tile; what it holds enters no sum over lanes

  void Lay(core::Arena& arena, const Cut& cut) {
    arena.TakeEach(cut.panel, rows, query, head, first, last, rank_first, rank_last);
    visible = arena.Take<uint64_t>(cut.tile);
  }
};

// What the sizes of scratch areas follow from.
struct ScratchFacts {
  const Attention& attention;
  const Cut& cut;
  const Shape& shape;
  bool narrow;               // whether operands hold 16-bit elements
  int64_t scheme_rows;       // see ForwardProblem
  bool sums_pieces = false;  // whether one task sums over the pieces of a chunk
  bool tangents = false;     // whether the call has some

  // How many queries need room to stand in rows, 0 where they stand in lanes.
  int64_t QueriesInRows() const { return HasFewQueries(shape) ? simd::kFewQueries : 0; }
  // So many rows of pairs of 16-bit steps, 0 where the call has none.
  int64_t InPairs(int64_t rows) const { return narrow ? rows : 0; }
};

// Room for copies of tiles of keys or values, one after the other.
template <class E>
struct HeldTiles {
  E* copies = nullptr;             // [room / tile, elements]
  bool* filled = nullptr;          // [room / tile]
  int64_t room = 0, elements = 0;  // room: in keys

  void Lay(core::Arena& arena, int64_t keys, int64_t tile, int64_t tile_elements) {
    room = keys;
    elements = tile_elements;
    copies = arena.Take<E>(room / tile, elements);
    filled = arena.Take<bool>(room / tile);
  }
};

// What attention/row_cache-inl.h keeps of the keys or values that one worker walks, in rows of `width` elements.
template <class T>
struct HeldRows {
  HeldTiles<T> rows;
  HeldTiles<uint32_t> pairs;     // of 16-bit elements
  uint16_t* gathered = nullptr;  // [tile, width] likewise
  int64_t width = 0, tile = 0;

  // walked: as many keys as one task walks; held: whether copies of all of them are kept, else of one tile; narrow: whether the
  // caller's elements have 16 bits.
  void Lay(core::Arena& arena, int64_t walked, bool held, bool narrow, int64_t row_width, int64_t tile_keys) {
    width = row_width;
    tile = tile_keys;
    const int64_t room = held ? RoundUp(std::max<int64_t>(1, walked), tile) : tile;
    rows.Lay(arena, room, tile, tile * width);
    if (!narrow) return;
    pairs.Lay(arena, room, tile, tile / 2 * width);
    gathered = arena.Take<uint16_t>(tile, width);
  }
};

// Room in a worker's scratch area: members of what follows take theirs where they are declared, so in this order.
struct Room {
  core::Arena& arena;
  const ScratchFacts& facts;
  const Cut& cut = facts.cut;
  const Shape& shape = facts.shape;

  // An array of so many elements each way.
  template <class T, class... Counts>
  T* Take(Counts... counts) const {
    return arena.Take<T>(counts...);
  }
  // The keys or values that a task walks, see HeldRows::Lay.
  template <class T>
  HeldRows<T> Rows(int64_t walked, bool held, bool narrow, int64_t width) const {
    HeldRows<T> rows;
    rows.Lay(arena, walked, held, narrow, width, cut.tile);
    return rows;
  }
};

// What scores are made in, the same for every pass.
template <class T>
struct ScoreScratch {
  ScoreScratch(const Room& in, int64_t keys_walked, bool keys_held) : room(in), walked(keys_walked), held(keys_held) {
    lanes.Lay(room.arena, room.cut);
  }

  const Room room;
  const int64_t walked;  // keys that one task walks at most, and whether copies of all of them are kept
  const bool held;
  Lanes<T> lanes;
  // A panel of the caller's rows, converted.
  T* rows = room.Take<T>(room.cut.panel, std::max(room.cut.head_dim, room.cut.value_dim));
  T* queries = room.Take<T>(room.shape.head_dim, room.cut.panel);                // scaled by scale * log2(e)
  T* few_queries = room.Take<T>(room.facts.QueriesInRows(), room.cut.head_dim);  // the same, one after the other
  T* few_scores = room.Take<T>(room.facts.QueriesInRows(), simd::kFewTileKeys);  // likewise, then weights
  // Where the caller's rows have gaps between elements or another type.
  HeldRows<T> keys = room.Rows<T>(walked, held, room.facts.narrow, room.cut.head_dim);
  T* tanh = room.Take<T>(room.facts.attention.softcap ? room.cut.tile : 0, room.cut.panel);  // of soft-capped scores
  // [D, panel] or half as many rows, as they are; see attention/score_products-inl.h
  uint32_t* query_pairs = room.Take<uint32_t>(room.facts.InPairs(room.shape.head_dim), room.cut.panel);
  simd::Ahead ahead;
};

// Of a call with tangents.
template <class T>
struct TangentScratch : Room {
  const int64_t walked;
  const bool held;
  T* queries = Take<T>(shape.head_dim, cut.panel);  // tangents of the queries, scaled as these
  T* scores = Take<T>(cut.tile, cut.panel);         // tangents of scores, then times weights
  HeldRows<T> keys = Rows<T>(walked, held, false, cut.head_dim), values = Rows<T>(walked, held, false, cut.value_dim);
  // Of the tile at hand: sums of weights, and of weights times tangents; and those of the weights of all tiles before.
  T *masses = Take<T>(cut.panel), *moments = Take<T>(cut.panel), *seen = Take<T>(cut.panel);
};

template <class T>
struct ForwardScratch : Room, ScoreScratch<T> {
  T* scores = Take<T>(cut.tile, cut.panel);  // then weights
  HeldRows<T> values = Rows<T>(this->walked, this->held, facts.narrow, cut.value_dim);
  T *minus_max = Take<T>(cut.panel), *sum = Take<T>(cut.panel);  // the base-2 reference of the scores, negated
  // For statistics: the largest score, and the sum of weight times score from the reference; the key of the largest score, see
  // SoftmaxState.
  T *largest = Take<T>(cut.panel), *weighted = Take<T>(cut.panel);
  T *key_high = Take<T>(cut.panel), *key_low = Take<T>(cut.panel);
  T* output = Take<T>(OutputRows(shape, facts.scheme_rows), cut.panel);
  T* few_output = Take<T>(facts.QueriesInRows(), cut.value_dim);
  T* few_before = Take<T>(facts.QueriesInRows(), cut.value_dim);  // the same before the tile at hand
  uint32_t* weight_pairs = Take<uint32_t>(facts.InPairs(cut.tile / 2), cut.panel);
  std::optional<TangentScratch<T>> tangents;

  ForwardScratch(core::Arena& in, const ScratchFacts& of)
      : Room{in, of}, ScoreScratch<T>(*this, std::min(cut.split, shape.kv_len), HoldsCopies(of)) {
    if (facts.tangents) tangents.emplace(TangentScratch<T>{*this, this->walked, this->held});
  }

  // Copies that one panel alone meets are made where the last tile's were, which are in the first-level cache.
  static bool HoldsCopies(const ScratchFacts& of) {
    return of.narrow && std::min(of.cut.split, of.shape.kv_len) <= simd::kHeldKeys &&
           PanelsOfKeyHead(of.cut, HeadsOfKeyHead(of.shape)) > 1;
  }
};

// Which gradients of operands a backward call wants.
struct WantedOperands {
  bool queries = true, keys = true, values = true;

  bool any() const { return queries || keys || values; }

  static WantedOperands Of(const core::Output& d_q, const core::Output& d_k, const core::Output& d_v) {
    return {d_q.present(), d_k.present(), d_v.present()};
  }
};

// Of gradients of statistics, see attention/statistic_terms-inl.h.
template <class T>
struct StatisticScratch : Room {
  T *d_entropy = Take<T>(cut.panel), *d_max_weight = Take<T>(cut.panel), *d_mean_distance = Take<T>(cut.panel);
  int64_t* largest_key = Take<int64_t>(cut.panel);
  T* terms = Take<T>(std::max<int64_t>(cut.tile * cut.panel, simd::kFewTileKeys));  // of a tile, or a row of few queries
};

// Of the tangent of a backward pass: tangents of what BackwardScratch has under the same names.
template <class T>
struct BackwardTangentScratch : Room {
  const int64_t walked;
  T *queries = Take<T>(shape.head_dim, cut.panel), *query_rows = Take<T>(cut.panel, cut.head_dim);
  T *d_out = Take<T>(shape.value_dim, cut.panel), *d_out_rows = Take<T>(cut.panel, cut.value_dim);
  T* out = Take<T>(shape.value_dim, cut.panel);
  T *centres = Take<T>(cut.panel), *minus_delta = Take<T>(cut.panel);  // of the log-sum-exp, of minus_delta
  T *weights = Take<T>(cut.tile, cut.panel), *d_scores = Take<T>(cut.tile, cut.panel);
  // Tangents of scores at their stages, see Scores::Tangents.
  T* products = Take<T>(facts.attention.softcap ? cut.tile : 0, cut.panel);
  T* before = Take<T>(cut.tile, cut.panel);
  HeldRows<T> keys = Rows<T>(walked, facts.narrow, false, cut.head_dim);
  HeldRows<T> values = Rows<T>(walked, facts.narrow, false, cut.value_dim);
};

template <class T>
struct BackwardScratch : Room, ScoreScratch<T> {
  const WantedOperands wanted;
  T* query_rows = Take<T>(cut.panel, cut.head_dim);  // scaled by scale
  T* d_out = Take<T>(shape.value_dim, cut.panel);
  T* out = Take<T>(cut.value_dim, cut.panel);  // or rows [queries, Dv padded] of few queries
  T* d_out_rows = Take<T>(cut.panel, cut.value_dim);
  T* minus_lse = Take<T>(cut.panel);  // base 2; -inf for inactive lanes
  // See attention/normaliser-inl.h.
  T *correction = Take<T>(cut.panel), *reference = Take<T>(cut.panel), *sum = Take<T>(cut.panel);
  T* minus_delta = Take<T>(cut.panel);
  T *weights = Take<T>(cut.tile, cut.panel), *d_scores = Take<T>(cut.tile, cut.panel);
  T* d_queries = Take<T>(shape.head_dim, cut.panel);
  HeldRows<T> values = Rows<T>(this->walked, facts.narrow, facts.narrow, cut.value_dim);
  // Of a piece, none where not wanted; and the same of all pieces so far, where one task sums over them.
  T* d_keys = Take<T>(wanted.keys ? this->walked : 0, cut.head_dim);
  T* d_values = Take<T>(wanted.values ? this->walked : 0, cut.value_dim);
  T* key_sums = Take<T>(wanted.keys && facts.sums_pieces ? this->walked : 0, cut.head_dim);
  T* value_sums = Take<T>(wanted.values && facts.sums_pieces ? this->walked : 0, cut.value_dim);
  // Few queries: gradients of scores and what dropout makes of 1; dQ, and the same before the tile at hand.
  T* few_d_scores = Take<T>(facts.QueriesInRows(), simd::kFewTileKeys);
  T* few_kept = Take<T>(facts.QueriesInRows(), simd::kFewTileKeys);
  T *few_d_queries = Take<T>(facts.QueriesInRows(), cut.head_dim), *few_before = Take<T>(facts.QueriesInRows(), cut.head_dim);
  // See attention/score_products-inl.h; in pairs half as many rows.
  uint32_t* d_out_pairs = Take<uint32_t>(facts.InPairs(shape.value_dim), cut.panel);
  uint32_t* out_pairs = Take<uint32_t>(facts.InPairs(shape.value_dim), cut.panel);
  uint32_t* query_row_pairs = Take<uint32_t>(facts.InPairs(cut.panel), cut.head_dim);
  uint32_t* d_out_row_pairs = Take<uint32_t>(facts.InPairs(cut.panel), cut.value_dim);
  uint32_t* d_score_pairs = Take<uint32_t>(facts.InPairs(cut.tile / 2), cut.panel);
  uint16_t* rounded = Take<uint16_t>(facts.InPairs(cut.tile), cut.panel);  // weights, then gradients of scores
  StatisticScratch<T> statistics{*this};
  std::optional<BackwardTangentScratch<T>> tangents;

  BackwardScratch(core::Arena& in, const ScratchFacts& of, const WantedOperands& operands)
      : Room{in, of},
        ScoreScratch<T>(*this, std::min(cut.chunk, RoundUp(shape.kv_len, cut.tile)), of.narrow),
        wanted(operands) {
    if (facts.tangents) tangents.emplace(BackwardTangentScratch<T>{*this, this->walked});
  }
};

}  // namespace heed::attention

#endif  // HEED_ATTENTION_PROBLEM_H_
