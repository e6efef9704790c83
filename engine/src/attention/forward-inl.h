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
#include <limits>
#include <optional>
#include <span>

#include "attention/normaliser-inl.h"
#include "attention/panel-inl.h"
#include "attention/position_hook-inl.h"
#include "attention/problem.h"
#include "attention/row_output-inl.h"
#include "attention/scores-inl.h"
#include "attention/softmax_state-inl.h"

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
        rows_(shape_.value_dim + problem.scheme_rows + problem.statistics.mean_distance.present()) {
    Choose(problem, scratch, scores_, hooks, output_);
  }

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
    if (KeysOfSplit(split).empty()) return StateIn(part).Reset();
    Walk(StateIn(scratch_.minus_max), split);
    std::copy_n(scratch_.minus_max, problem_.part_size(), part);
  }

  // Merges all splits of a panel, in their order, and writes the caller's output.
  void Merge(const attention::PanelPlace& place, T* parts) {
    Prepare(place);
    if (panel_.count == 0) return;
    const SoftmaxState<T> state = StateIn(scratch_.minus_max);
    bool any = false;
    for (int64_t split = 0; split < problem_.cut.splits; ++split) {
      T* part = parts + split * problem_.part_size();
      const SoftmaxState<T> other = StateIn(part);
      if (other.empty()) continue;
      if (any) {
        output_->Merge(state, other);
      } else {
        std::copy_n(part, problem_.part_size(), scratch_.minus_max);
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
  // The arrays of a state lie one after the other, in the scratch area and in parts alike, each with room for a full panel.
  SoftmaxState<T> StateIn(T* memory) const {
    const int64_t room = problem_.cut.panel;
    T *sum = memory + room, *largest = sum + room, *weighted = largest + room, *key_high = weighted + room;
    T *key_low = key_high + room, *output = key_low + room;
    return {.minus_max = memory,
            .sum = sum,
            .output = output,
            .width = panel_.width,
            .rows = rows_,
            .largest = problem_.wants_statistics() ? largest : nullptr,
            .weighted = weighted,
            .key_high = key_high,
            .key_low = problem_.largest_key.present() ? key_low : nullptr,
            .slack = output_->slack()};
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
    output_->Begin(panel_);
  }

  void Walk(const SoftmaxState<T>& state, int64_t split) {
    state.Reset();
    // The rows behind the values are added to by whoever asked for them; those of the values begin with the first whole tile.
    std::fill_n(scratch_.output + shape_.value_dim * panel_.width, (rows_ - shape_.value_dim) * panel_.width, T{0});
    WalkTiles(state, split);
    output_->Close();
  }

  // Those of a split that the panel reaches.
  attention::KeyRange KeysOfSplit(int64_t split) const {
    const attention::Cut& cut = problem_.cut;
    if (panel_.count == 0) return {};
    return NarrowPanel(problem_.plan, panel_, attention::SplitOf(panel_.range.reach, split, cut), cut.tile);
  }

  void WalkTiles(const SoftmaxState<T>& state, int64_t split) {
    const attention::Cut& cut = problem_.cut;
    const attention::KeyRange keys = KeysOfSplit(split);
    if (keys.empty()) return;
    const int64_t b = panel_.b, kv_head = panel_.head / (shape_.q_heads / shape_.kv_heads);
    // Panels that are not split share the keys that the worker walks, whatever they reach of them.
    const attention::KeyRange walked = cut.splits == 1 ? attention::KeyRange{0, problem_.plan.KeyCount(b)}
                                                       : attention::SplitOf(panel_.range.reach, split, cut);
    scores_.Begin(panel_, kv_head, walked);
    for (PositionHook<T>* hook : hooks_) hook->Begin(arrays_);
    scores_.Survey(panel_, cut.tile, {keys.begin, panel_.range.reach.end}, scratch_.scores);
    output_->Walk({kv_head, walked, keys, next_});
    scores_.sight().ForEachTile(
        panel_, cut.tile, keys, [&](const TileSight& tile) { output_->Take(state, tile); }, output_->boundary());
  }

  // output[c, w] becomes out[w, c], normalised; rows without a key become 0.
  void Finish(const SoftmaxState<T>& state) {
    TakeValuelessKey(problem_, panel_, scratch_.lanes, state, scratch_.scores);
    if (problem_.valueless_key.present()) output_->TakeValueless(scratch_.scores);
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
    output_->Normalise(state);
    for (PositionHook<T>* hook : hooks_) hook->End(arrays_);
    if (problem_.statistics.mean_distance.present()) {
      const T* distances = state.output + (rows_ - 1) * panel_.width;
      for (int64_t w = 0; w < panel_.used(); ++w)
        NumberOf(problem_.statistics.mean_distance, w) = distances[w] / static_cast<T>(problem_.dropout.kept_scale);
    }
    output_->Write(state);
  }

  template <class Number>
  Number& NumberOf(const View<Number, 3>& rows, int64_t w) const {
    return RowNumber(problem_.plan, panel_, scratch_.lanes, rows, w);
  }

  // A number of each lane; `idle` where its query looks at no key.
  void WriteRowNumbers(const View<T, 3>& view, const T* numbers, T idle) const {
    if (!view.present()) return;
    if (panel_.heads == 1 && panel_.range.idle == 0 && view.stride[2] == 1) {
      std::copy_n(numbers, panel_.count, &NumberOf(view, 0));
      return;
    }
    for (int64_t w = 0; w < panel_.used(); ++w) NumberOf(view, w) = panel_.range.idle >> w & 1 ? idle : numbers[w];
  }

  void WriteWeightStatistics(const SoftmaxState<T>& state) {
    if (!problem_.wants_statistics()) return;
    for (int64_t w = 0; problem_.largest_key.present() && w < panel_.used(); ++w)
      NumberOf(problem_.largest_key, w) = panel_.range.idle >> w & 1 ? SoftmaxState<T>::kNoKey : state.LargestKey(w);
    T *entropy = state.weighted, *max_weight = state.largest;
    state.Statistics(d_, entropy, max_weight);
    WriteRowNumbers(problem_.statistics.entropy, entropy, T{0});
    WriteRowNumbers(problem_.statistics.max_weight, max_weight, T{0});
  }

  static constexpr hn::ScalableTag<T> d_{};
  const attention::ForwardProblem<T>& problem_;
  const Shape& shape_;
  attention::ForwardScratch<T>& scratch_;
  std::span<PositionHook<T>* const> hooks_;
  Scores<T> scores_;
  ChosenOutput<T> output_;
  int64_t rows_;
  std::optional<attention::PanelPlace> next_;
  Panel panel_{};
  PanelArrays<T> arrays_{};
};

// The weights of a panel written out, for those who ask: p = exp(s - lse) from the log-sum-exp of the forward pass.
template <class T>
class WeightsPanel {
 public:
  WeightsPanel(const attention::WeightsProblem<T>& problem, attention::ForwardScratch<T>& scratch,
               std::span<PositionHook<T>* const> hooks)
      : problem_(problem),
        scratch_(scratch),
        hooks_(hooks),
        scores_(problem, scratch, hooks),
        normaliser_(problem, scratch.lanes, scratch.minus_max, scratch.weighted, scratch.largest, scratch.sum) {}

  // Panel `index` of the chosen rows, for the chosen head `slot`.
  void Run(int64_t b, int64_t slot, int64_t index) {
    const attention::Cut& cut = problem_.cut;
    const Shape& shape = problem_.plan.shape();
    const int64_t head = problem_.heads(slot), first = index * cut.panel;
    const int64_t count = std::min(cut.panel, problem_.rows.extent[0] - first);
    for (int64_t x = 0; x < count; ++x)
      for (int64_t j = 0; j < shape.kv_len; ++j) problem_.weights(b, slot, first + x, j) = T{0};
    // Chosen rows need not be neighbours: each distinct panel of the plan is walked once for the rows that lie in it.
    int64_t done = -1;
    for (int64_t x = 0; x < count; ++x) {
      const int64_t panel = problem_.rows(first + x) / cut.panel;
      if (panel == done) continue;
      done = panel;
      RunPanel(b, head, slot, panel, first, count);
    }
  }

 private:
  void RunPanel(int64_t b, int64_t head, int64_t slot, int64_t index, int64_t first, int64_t count) {
    panel_ = MakePanel(problem_.plan, problem_.cut, b, head, index, scratch_.lanes);
    const attention::KeyRange& reach = panel_.range.reach;
    if (reach.empty()) return;
    const Shape& shape = problem_.plan.shape();
    T *lse = scratch_.minus_max, *correction = scratch_.weighted;
    for (int64_t w = 0; w < panel_.count; ++w) lse[w] = problem_.lse(b, head, panel_.begin + w);
    HideRowsWithoutWeights(panel_, lse, scratch_.lanes);
    scores_.Begin(panel_, head / (shape.q_heads / shape.kv_heads), {0, shape.kv_len});
    const PanelArrays<T> arrays{.b = b,
                                .head = head,
                                .panel = panel_.width,
                                .used = panel_.used(),
                                .blind = scratch_.lanes.uniform | scratch_.lanes.idle,
                                .queries = scratch_.queries,
                                .output = scratch_.output};
    for (PositionHook<T>* hook : hooks_) hook->Begin(arrays);
    scores_.Survey(panel_, problem_.cut.tile, reach, scratch_.scores);
    std::fill(lse + panel_.count, lse + panel_.width, -std::numeric_limits<T>::infinity());
    std::fill_n(correction, panel_.width, T{0});
    normaliser_.Set(panel_.width);
    normaliser_.Prepare(panel_, problem_.cut.tile, scores_, scratch_.scores);
    scores_.sight().ForEachTile(panel_, problem_.cut.tile, reach, [&](const TileSight& tile) HWY_ATTR {
      for (const StripSight& strip : tile.strips()) Take(b, slot, first, count, strip);
    });
  }

  void Take(int64_t b, int64_t slot, int64_t first, int64_t count, const StripSight& strip) {
    if (strip.seen == Seen::kNone) return;
    const TilePlace& place = strip.place;
    scores_.Fill(strip, scratch_.scores);
    if (strip.seen == Seen::kSome) scores_.Mask(place, -std::numeric_limits<T>::infinity(), scratch_.scores);
    Exponentiate(place);
    for (int64_t x = 0; x < count; ++x) {
      const int64_t w = problem_.rows(first + x) - panel_.begin;
      if (w < place.lane_begin || w >= place.used_end()) continue;
      for (int64_t j = 0; j < place.keys; ++j)
        problem_.weights(b, slot, first + x, place.key + j) = scratch_.scores[j * place.panel + w];
    }
  }

  void Exponentiate(const TilePlace& place) {
    ForEachVector(d_, place, [&](int64_t at, int64_t, int64_t w) HWY_ATTR {
      hn::Store(normaliser_.At(w).Weight(scratch_.scores + at), d_, scratch_.scores + at);
    });
  }

  static constexpr hn::ScalableTag<T> d_{};
  const attention::WeightsProblem<T>& problem_;
  attention::ForwardScratch<T>& scratch_;
  std::span<PositionHook<T>* const> hooks_;
  Scores<T> scores_;
  Normaliser<T> normaliser_;
  Panel panel_{};
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
