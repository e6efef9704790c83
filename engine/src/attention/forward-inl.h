// o[i] = sum_j softmax_j(s[i, j]) (v[j] + what a scheme adds to it)
//
// Dao 2023, "FlashAttention-2", algorithm 1, one panel of queries at a time. Differences: queries stand in SIMD lanes, so
// that the softmax is vertical; scores are in powers of two with log2(e) folded into the queries; the reference of the
// softmax follows the maximum only when it falls behind by more than 2^8. Error against double: a few eps times
// sum_j p[j] |v[j]|, held by tests/engine/accuracy_test.cc.
#if defined(HEED_ATTENTION_FORWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_FORWARD_INL_H_
#undef HEED_ATTENTION_FORWARD_INL_H_
#else
#define HEED_ATTENTION_FORWARD_INL_H_
#endif

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <span>

#include "attention/dropout-inl.h"
#include "attention/few_rows-inl.h"
#include "attention/mask-inl.h"
#include "attention/normaliser-inl.h"
#include "attention/pair_rows-inl.h"
#include "attention/panel-inl.h"
#include "attention/position_hook-inl.h"
#include "attention/problem.h"
#include "attention/scores-inl.h"
#include "attention/softmax_state-inl.h"
#include "simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
class ForwardPanel {
 public:
  ForwardPanel(const attention::ForwardProblem<T>& problem, attention::ForwardScratch<T>& scratch,
               std::span<PositionHook<T>* const> hooks)
      : problem_(problem),
        shape_(problem.plan.shape()),
        scratch_(scratch),
        hooks_(hooks),
        scores_(problem, scratch, hooks),
        values_(scratch.values, shape_.value_dim),
        value_pairs_(scratch.value_pairs, shape_.value_dim),
        few_(problem, scratch, scores_, values_),
        rows_(shape_.value_dim + problem.scheme_rows + problem.statistics.mean_distance.present()) {}

  // The panel that is likely to come after the next Run, if any.
  void Expect(const std::optional<attention::PanelPlace>& next) { next_ = next; }

  // A whole panel, from its queries to the caller's output.
  void Run(const attention::PanelPlace& place) {
    Prepare(place);
    const SoftmaxState<T> state = StateIn(scratch_.minus_max);
    Walk(state, 0);
    if (panel_.count > 0) Finish(state);
  }

  // One split of a panel's keys; its state goes to `part`, without an output where the panel sees none of them.
  void RunSplit(const attention::PanelPlace& place, int64_t split, T* part) {
    Prepare(place);
    if (KeysOf(split).empty()) return StateIn(part).Reset();
    Walk(StateIn(scratch_.minus_max), split);
    std::copy_n(scratch_.minus_max, PartSize(), part);
  }

  // Merges all splits of a panel, in their order, and writes the caller's output.
  void Merge(const attention::PanelPlace& place, T* parts) {
    Prepare(place);
    if (panel_.count == 0) return;
    const SoftmaxState<T> state = StateIn(scratch_.minus_max);
    bool any = false;
    for (int64_t split = 0; split < problem_.cut.splits; ++split) {
      T* part = parts + split * PartSize();
      const SoftmaxState<T> other = StateIn(part);
      if (other.empty()) continue;
      if (any) {
        state.Merge(d_, other);
      } else {
        std::copy_n(part, PartSize(), scratch_.minus_max);
      }
      any = true;
    }
    if (!any) {
      state.Reset();
      std::fill_n(scratch_.output, rows_ * panel_.width, T{0});
    }
    Finish(state);
  }

 private:
  int64_t PartSize() const { return attention::ForwardScratch<T>::SplitPart(shape_, problem_.cut, problem_.scheme_rows); }

  // The arrays of a state lie one after the other, in the scratch area and in parts alike, each with room for a full panel.
  SoftmaxState<T> StateIn(T* memory) const {
    const int64_t room = problem_.cut.panel;
    T *sum = memory + room, *largest = sum + room, *weighted = largest + room, *output = weighted + room;
    return {.minus_max = memory,
            .sum = sum,
            .output = output,
            .width = panel_.width,
            .rows = rows_,
            .largest = problem_.wants_statistics() ? largest : nullptr,
            .weighted = weighted,
            .slack = Fused() ? T{0} : static_cast<T>(kSlackLog2)};
  }

  void Prepare(const attention::PanelPlace& place) {
    panel_ = MakePanel(problem_.plan, problem_.cut, place.b, place.head, place.index, scratch_.lanes);
    arrays_ = {.b = place.b,
               .head = place.head,
               .panel = panel_.width,
               .used = panel_.used(),
               .blind = scratch_.lanes.uniform | scratch_.lanes.idle,
               .queries = scratch_.queries,
               .output = scratch_.output};
  }

  void Walk(const SoftmaxState<T>& state, int64_t split) {
    state.Reset();
    // The rows behind the values are added to by whoever asked for them; those of the values begin with the first whole tile.
    std::fill_n(scratch_.output + shape_.value_dim * panel_.width, (rows_ - shape_.value_dim) * panel_.width, T{0});
    blank_ = true;
    if (scores_.few()) few_.Clear(panel_.used());
    WalkTiles(state, split);
    if (scores_.few() && RowsStay()) return;
    ClearBlank();
    if (scores_.few()) few_.ToColumns(panel_.used(), panel_.width, scratch_.output);
  }

  // Whether the outputs of few queries are rows to the end: nobody adds to them, and they are not merged.
  bool RowsStay() const {
    return !scores_.weighs() && rows_ == shape_.value_dim && problem_.cut.splits == 1 && !problem_.remainder.data;
  }

  // Those of a split that the panel reaches.
  attention::KeyRange KeysOf(int64_t split) const {
    const attention::Cut& cut = problem_.cut;
    if (panel_.count == 0) return {};
    return NarrowPanel(problem_.plan, panel_, attention::SplitOf(panel_.range.reach, split, cut), cut.tile);
  }

  void WalkTiles(const SoftmaxState<T>& state, int64_t split) {
    const attention::Cut& cut = problem_.cut;
    const attention::KeyRange keys = KeysOf(split);
    if (keys.empty()) return;
    const int64_t b = panel_.b, kv_head = panel_.head / (shape_.q_heads / shape_.kv_heads);
    // Panels that are not split share the keys that the worker walks, whatever they reach of them.
    const attention::KeyRange walked = cut.splits == 1 ? attention::KeyRange{0, problem_.plan.KeyCount(b)}
                                                       : attention::SplitOf(panel_.range.reach, split, cut);
    scores_.Begin(panel_, kv_head, walked);
    const auto values = RowsOf(problem_.v, problem_.plan.ArrayRow(b), kv_head, problem_.plan.FirstKey(b));
    values_.Walk(values, walked.begin, walked.end);
    if (Fused()) value_pairs_.Walk(values, walked.begin, walked.end);
    stream_ = StreamOf(problem_.attention.dropout, problem_.dropout, b, panel_.heads == 1 ? panel_.head : 0);
    for (PositionHook<T>* hook : hooks_) hook->Begin(arrays_);
    scores_.Survey(panel_, cut.tile, {keys.begin, panel_.range.reach.end}, scratch_.scores);
    if (!scores_.in_rows()) AskAhead(b, kv_head);  // whose products ask for nothing meanwhile
    streams_ = cut.panels == 1 && walked.end - walked.begin >= simd::kStreamedKeys * panel_.width;
    const bool far = !scores_.few() && !streams_ && ComeFromFar(walked, shape_, core::BytesOf(problem_.k.element));
    const auto take = [&](const Strips& strips) HWY_ATTR {
      if (far) AskForKeysAndValues(strips.places[0].tile_key + cut.tile, keys.end);
      Tile(state, strips);
    };
    ForEachTile(panel_, cut.tile, keys, scratch_.lanes, take, scores_.in_rows() ? Boundary::kPiece : Boundary::kStrips);
  }

  void ClearBlank() {
    if (blank_) std::fill_n(scratch_.output, shape_.value_dim * panel_.width, T{0});
    blank_ = false;
  }

  // Asks for the rows that this panel will write, and for those that the next one begins with.
  void AskAhead(int64_t b, int64_t kv_head) {
    const attention::Plan& plan = problem_.plan;
    const attention::Cut& cut = problem_.cut;
    simd::Ahead& ahead = scratch_.ahead;
    ahead.Clear();
    for (int64_t x = 0; x < panel_.heads; ++x)
      AskFor(RowsOf(problem_.out, plan.ArrayRow(b), panel_.head + x, plan.FirstQuery(b)), panel_.begin, panel_.count,
             shape_.value_dim, ahead);
    if (!next_) return;
    const int64_t begin = next_->index * cut.panel, count = std::min(cut.panel, plan.QueryCount(next_->b) - begin);
    for (int64_t x = 0; x < cut.group; ++x)
      AskFor(RowsOf(problem_.q, plan.ArrayRow(next_->b), next_->head + x, plan.FirstQuery(next_->b)), begin, count,
             shape_.head_dim, ahead);
    const int64_t next_kv_head = next_->head / (shape_.q_heads / shape_.kv_heads);
    if (next_->b == b && next_kv_head == kv_head) return;
    const int64_t keys = std::min(2 * cut.tile, plan.KeyCount(next_->b));
    const auto rows = [&](const core::Input& operand) {
      return RowsOf(operand, plan.ArrayRow(next_->b), next_kv_head, plan.FirstKey(next_->b));
    };
    AskFor(rows(problem_.k), 0, keys, shape_.head_dim, ahead);
    AskFor(rows(problem_.v), 0, keys, shape_.value_dim, ahead);
  }

  // Those of a tile.
  void AskForKeysAndValues(int64_t begin, int64_t end) {
    end = std::min(end, begin + problem_.cut.tile);
    scores_.AskForKeys(begin, end);
    AskFor(values_.stored(), begin, end - begin, shape_.value_dim, scratch_.ahead);
  }

  // Whether anybody but dropout works on the weights of a tile between the softmax and their product with values.
  bool Weighs() const { return problem_.statistics.mean_distance.present() || scores_.weighs(); }
  void WeighStrip(const TilePlace& place, T* weights) {
    if (problem_.statistics.mean_distance.present()) AddDistances(place, weights);
    if (problem_.dropout.of_65536 != 0) DropWeights(d_, stream_, place, weights);
    for (PositionHook<T>* hook : hooks_)
      if (hook->weighs()) hook->Weigh(place, weights);
  }

  // A panel of few queries computes so little for each key that the keys of the next tile are asked for at every step, and so
  // does one that nobody has brought keys closer for, unless it has about as many queries. Half the width of AVX-512 computes
  // no idle lanes of a decoding step, at twice the rate where the machine has two such units.
  void Tile(const SoftmaxState<T>& state, const Strips& strips) {
    if (scores_.few()) {
      few_.Take(state, strips, Weighs(), [&](const TilePlace& place, T* weights) HWY_ATTR { WeighStrip(place, weights); });
      return;
    }
    const auto keys = [&](const TilePlace& place) { return scores_.After(place); };
    const auto values = [&](const TilePlace& place) {
      return StreamFrom(values_.stored(), place.key + place.keys, shape_.value_dim);
    };
    const auto queue = [&](const TilePlace&) -> simd::Ahead& { return scratch_.ahead; };
    if (panel_.used() <= static_cast<int64_t>(hn::MaxLanes(narrow_))) {
      TileOf(narrow_, state, strips, keys, values);
    } else if (streams_) {
      TileOf(d_, state, strips, keys, values);
    } else {
      TileOf(d_, state, strips, queue, queue);
    }
  }

  template <class D, class KeysAhead, class ValuesAhead>
  HWY_INLINE void TileOf(D d, const SoftmaxState<T>& state, const Strips& strips, const KeysAhead& keys,
                         const ValuesAhead& values) {
    if (scores_.Hidden(strips)) return;
    if (strips.masked) ClearBlank();
    const std::array<Seen, kMaxStrips> seen = scores_.FillTile(d, strips, scratch_.scores, keys);
    TakeTile(d, state, strips, scratch_.scores);
    for (std::size_t x = 0; x < strips.count; ++x)
      if (seen[x] != Seen::kNone) AddValues(d, strips.places[x], seen[x], values);
  }

  // The output of a strip, from its weights.
  template <class D, class Ahead>
  HWY_INLINE void AddValues(D d, const TilePlace& place, Seen seen, const Ahead& ahead) {
    T* weights = RowsOfStrip(scratch_.scores, place);
    WeighStrip(place, weights);
    if (Fused()) return AddRoundedValues(place, seen, weights);
    const HeadRows<const T> rows = values_.At(place.tile_key, place.key, place.keys);
    if (seen == Seen::kSome && !AllFinite(d_, rows, place.keys, shape_.value_dim)) {
      ClearBlank();
      VisibleProduct(d_, scratch_.lanes, place, rows, shape_.value_dim, weights, scratch_.output);
      return;
    }
    const int64_t lanes = ProductWidth(d, place.used_end() - place.lane_begin);
    auto&& memory = ahead(place);
    if (!place.all_used()) ClearBlank();
    const Target<T> output{scratch_.output + place.lane_begin, panel_.width, !blank_};
    Product(d, Scalars<T>{rows.data, 1, rows.row_stride}, {weights + place.lane_begin, panel_.width},
            {shape_.value_dim, place.keys, lanes}, output, memory);
    blank_ = false;
  }

  // Whether weights are rounded.
  bool Fused() const { return problem_.pairs == attention::PairUse::kAll; }

  void AddRoundedValues(const TilePlace& place, Seen seen, T* weights) {
    if constexpr (sizeof(T) == sizeof(float)) {
      const int64_t begin = place.lane_begin;
      const int64_t lanes = attention::RoundUp(place.used_end() - begin, attention::kLaneQuantum);
      const bool finite = seen == Seen::kAll || value_pairs_.AllFinite(place.tile_key, place.key, place.keys);
      if (!finite || lanes < panel_.width) ClearBlank();
      if (!finite) {
        RoundInPlace(place, weights);
        VisibleProduct(d_, scratch_.lanes, place, values_.At(place.tile_key, place.key, place.keys), shape_.value_dim, weights,
                       scratch_.output, Steps::kPairs);
        return;
      }
      RoundTile(weights + begin, panel_.width, place.keys, lanes, {.pairs = scratch_.weight_pairs + begin, .rows = nullptr});
      PairProduct(value_pairs_.AlongKeys(place.tile_key, place.key), {scratch_.weight_pairs + begin, panel_.width},
                  {shape_.value_dim, place.keys, lanes}, {scratch_.output + begin, panel_.width, !blank_}, scratch_.ahead);
      blank_ = false;
    }
  }

  // The last row of the output: weight times distance.
  void AddDistances(const TilePlace& place, const T* weights) {
    T* sums = scratch_.output + (rows_ - 1) * panel_.width;
    const attention::Order& order = problem_.plan.order();
    const bool listed = order.listed();
    const double first = listed ? 0 : static_cast<double>(problem_.plan.FirstOffset(place.b));
    for (int64_t w = place.lane_begin; w < place.used_end(); ++w) {
      const double own =
          listed ? order.QueryPositions(place.b)[place.queries[w]] : static_cast<double>(place.queries[w]) - first;
      for (int64_t j = 0; j < place.keys; ++j) {
        const double key = listed ? order.KeyPositions(place.b)[place.key + j] : static_cast<double>(place.key + j);
        sums[w] += weights[j * place.panel + w] * static_cast<T>(std::abs(key - own));
      }
    }
  }

  // output[c, w] becomes out[w, c], normalised; rows without a key become 0.
  void Finish(const SoftmaxState<T>& state) {
    WriteWeightStatistics(state);
    if (problem_.correction.present()) state.Keep(scratch_.largest, scratch_.weighted);
    state.Finish(d_, static_cast<T>(problem_.dropout.kept_scale));
    for (int64_t w = 0; panel_.range.idle != 0 && w < panel_.used(); ++w)
      if (panel_.range.idle >> w & 1) state.sum[w] = 0;
    WriteRowNumbers(problem_.lse, state.minus_max, -std::numeric_limits<T>::infinity());
    if (problem_.correction.present()) {
      Normaliser<T>::Correct(state.minus_max, scratch_.largest, scratch_.weighted, panel_.width);
      WriteRowNumbers(problem_.correction, scratch_.weighted, T{1});
    }
    const bool rows_stay = scores_.few() && RowsStay();
    if (!rows_stay) state.Normalise(d_);
    for (PositionHook<T>* hook : hooks_) hook->End(arrays_);
    if (problem_.statistics.mean_distance.present()) {
      const T* distances = state.output + (rows_ - 1) * panel_.width;
      for (int64_t w = 0; w < panel_.used(); ++w)
        RowNumber(problem_.statistics.mean_distance, w) = distances[w] / static_cast<T>(problem_.dropout.kept_scale);
    }
    if (rows_stay) return few_.Write(panel_, state.sum);
    WriteOutput();
  }

  T& RowNumber(const View<T, 3>& view, int64_t w) const {
    return view(problem_.plan.ArrayRow(panel_.b), scratch_.lanes.head[w],
                problem_.plan.FirstQuery(panel_.b) + scratch_.lanes.query[w]);
  }

  // A number of each lane; `idle` where its query looks at no key.
  void WriteRowNumbers(const View<T, 3>& view, const T* numbers, T idle) const {
    if (!view.present()) return;
    if (panel_.heads == 1 && panel_.range.idle == 0 && view.stride[2] == 1) {
      std::copy_n(numbers, panel_.count, &RowNumber(view, 0));
      return;
    }
    for (int64_t w = 0; w < panel_.used(); ++w) RowNumber(view, w) = panel_.range.idle >> w & 1 ? idle : numbers[w];
  }

  void WriteWeightStatistics(const SoftmaxState<T>& state) {
    if (!problem_.wants_statistics()) return;
    T *entropy = state.weighted, *max_weight = state.largest;
    state.Statistics(d_, entropy, max_weight);
    WriteRowNumbers(problem_.statistics.entropy, entropy, T{0});
    WriteRowNumbers(problem_.statistics.max_weight, max_weight, T{0});
  }

  void WriteOutput() {
    const auto rows_of = [&](int64_t x) {
      return RowsOf(problem_.out, problem_.plan.ArrayRow(panel_.b), panel_.head + x, problem_.plan.FirstQuery(panel_.b));
    };
    const StoredRows<std::byte> first = rows_of(0);
    if (AreBlocks<T>(panel_) && first.template Holds<T>() && first.element_stride == 1) {
      for (int64_t x = 0; x < panel_.heads; ++x) {
        const StoredRows<std::byte> out = rows_of(x);
        Transpose(scratch_.output + x * panel_.count, panel_.width, shape_.value_dim, panel_.count, T{1},
                  reinterpret_cast<T*>(out.At(panel_.begin, 0)), out.row_stride);
      }
      return;
    }
    const int64_t stride = problem_.cut.value_dim;
    Transpose(scratch_.output, panel_.width, shape_.value_dim, attention::RoundUp(panel_.used(), kTransposeBlock<T>), T{1},
              scratch_.rows, stride);
    for (int64_t w = 0; w < panel_.used(); ++w) {
      const int64_t x = w / panel_.count, i = panel_.begin + w % panel_.count;
      const StoredRows<std::byte> out = rows_of(x);
      StoreRow(scratch_.rows + w * stride, shape_.value_dim, out, i);
      if (problem_.remainder.data) StoreRemainder(scratch_.rows + w * stride, out, x, i);
    }
  }

  // What rounding took from a row of head x, which is row i of `out`; nothing where the rounded number is infinite.
  void StoreRemainder(T* row, const StoredRows<std::byte>& out, int64_t x, int64_t i) {
    if constexpr (sizeof(T) == sizeof(float)) {
      SubtractStored(row, shape_.value_dim, out, i);
      StoreRow(
          row, shape_.value_dim,
          RowsOf(problem_.remainder, problem_.plan.ArrayRow(panel_.b), panel_.head + x, problem_.plan.FirstQuery(panel_.b)), i);
    }
  }

  static constexpr hn::ScalableTag<T> d_{};
  static constexpr hn::CappedTag<T, 8> narrow_{};
  const attention::ForwardProblem<T>& problem_;
  const Shape& shape_;
  attention::ForwardScratch<T>& scratch_;
  std::span<PositionHook<T>* const> hooks_;
  Scores<T> scores_;
  WalkedRows<T> values_;
  WalkedPairs value_pairs_;
  FewRows<T> few_;
  int64_t rows_;
  std::optional<attention::PanelPlace> next_;
  bool streams_ = false;  // whether keys and values are asked for at every step of a product
  bool blank_ = true;     // whether the output holds nothing yet, not even zeros
  Panel panel_{};
  PanelArrays<T> arrays_{};
  DropoutStream stream_{};
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
