// What the tiles of a panel add up to: weights times values, normalised only when all keys are taken. One class a layout
// (attention::Layout).
#if defined(HEED_ATTENTION_PANEL_OUTPUT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_PANEL_OUTPUT_INL_H_
#undef HEED_ATTENTION_PANEL_OUTPUT_INL_H_
#else
#define HEED_ATTENTION_PANEL_OUTPUT_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>

#include "attention/dropout-inl.h"
#include "attention/panel-inl.h"
#include "attention/position_hook-inl.h"
#include "attention/problem.h"
#include "attention/score_products-inl.h"
#include "attention/scores-inl.h"
#include "attention/softmax_state-inl.h"
#include "simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The keys that a panel meets: those of key head kv_head that the worker walks, and of them those that the panel does.
struct PanelWalk {
  int64_t kv_head;
  attention::KeyRange walked, keys;
  std::optional<attention::PanelPlace> next;  // the panel that is likely to come after this one, if any
};

// What every layout has in common, and the shape that a panel is computed over: Begin, Walk, Take for each tile, Close, then
// Normalise and Write. Between Close and Normalise the output stands in scratch.output, [Dv and rows of schemes, panel], as far
// as anybody else than the layout reads it.
template <class T>
class PanelOutput {
 public:
  PanelOutput(const attention::ForwardProblem<T>& problem, attention::ForwardScratch<T>& scratch, Scores<T>& scores,
              std::span<PositionHook<T>* const> hooks)
      : problem_(problem),
        shape_(problem.plan.shape()),
        scratch_(scratch),
        scores_(scores),
        hooks_(hooks),
        values_(scratch.values, shape_.value_dim) {}
  virtual ~PanelOutput() = default;
  PanelOutput(const PanelOutput&) = delete;
  PanelOutput& operator=(const PanelOutput&) = delete;

  // How far the softmax may let its reference fall behind, and how tiles at the edge of what is seen are cut.
  virtual T slack() const { return static_cast<T>(kSlackLog2); }
  virtual Boundary boundary() const { return Boundary::kStrips; }

  // A panel that has taken no key yet.
  virtual void Begin(const Panel& panel) { panel_ = &panel; }
  // The keys of the tiles to come, whose scores have begun.
  virtual void Walk(const PanelWalk& walk) {
    const int64_t b = panel_->b;
    values_.Walk(KeysOf(problem_.plan, problem_.v, b, walk.kv_head), walk.walked.begin, walk.walked.end);
    stream_ = StreamOf(problem_.attention.dropout, problem_.dropout, b, panel_->heads == 1 ? panel_->head : 0);
  }
  // Takes in a tile: its scores, its weights, and their product with its values.
  virtual void Take(const SoftmaxState<T>& state, const TileSight& tile) = 0;
  // After the last tile.
  virtual void Close() = 0;

  // Takes in the state of other keys, whose memory may be changed.
  virtual void Merge(const SoftmaxState<T>& state, const SoftmaxState<T>& other) { state.Merge(d_, other); }
  // The state has taken a key without a value, with these weights [panel], behind all others.
  virtual void TakeValueless(const T* /*weights*/) {}

  // After SoftmaxState::Finish.
  virtual void Normalise(const SoftmaxState<T>& state) { state.Normalise(d_); }
  // To the caller's rows.
  virtual void Write(const SoftmaxState<T>& /*state*/) { WriteRows(problem_.out, scratch_.output, problem_.remainder); }

 protected:
  // Rows of the output: values, those of schemes, the mean distance.
  int64_t rows() const { return shape_.value_dim + problem_.scheme_rows + problem_.statistics.mean_distance.present(); }

  // Whether anybody but dropout works on the weights of a tile between the softmax and their product with values.
  bool Weighs() const { return problem_.statistics.mean_distance.present() || scores_.weighs(); }
  void WeighStrip(const TilePlace& place, T* weights) {
    if (problem_.statistics.mean_distance.present()) AddDistances(place, weights);
    if (problem_.dropout.of_65536 != 0) DropWeights(d_, stream_, place, weights);
    for (PositionHook<T>* hook : hooks_)
      if (hook->weighs()) hook->Weigh(place, weights);
  }

  // columns [Dv, panel] to the caller's rows; remainder: where what rounding takes goes, or without data.
  void WriteRows(const core::Output& target, const T* columns, const core::Output& remainder) {
    const auto rows_of = [&](int64_t x) { return QueriesOf(problem_.plan, target, panel_->b, panel_->head + x); };
    const StoredRows<std::byte> first = rows_of(0);
    if (AreBlocks<T>(*panel_) && first.template Holds<T>() && first.element_stride == 1) {
      for (int64_t x = 0; x < panel_->heads; ++x) {
        const StoredRows<std::byte> out = rows_of(x);
        Transpose(columns + x * panel_->count, panel_->width, shape_.value_dim, panel_->count, T{1},
                  reinterpret_cast<T*>(out.At(panel_->begin, 0)), out.row_stride);
      }
      return;
    }
    const int64_t stride = problem_.cut.value_dim;
    Transpose(columns, panel_->width, shape_.value_dim, attention::RoundUp(panel_->used(), kTransposeBlock<T>), T{1},
              scratch_.rows, stride);
    for (int64_t w = 0; w < panel_->used(); ++w) {
      const int64_t x = w / panel_->count, i = panel_->begin + w % panel_->count;
      const StoredRows<std::byte> out = rows_of(x);
      StoreRow(scratch_.rows + w * stride, shape_.value_dim, out, i);
      if (remainder.data) StoreRemainder(scratch_.rows + w * stride, out, x, i);
    }
  }

 private:
  // The last row of the output: weight times distance.
  void AddDistances(const TilePlace& place, const T* weights) {
    T* sums = scratch_.output + (rows() - 1) * panel_->width;
    for (int64_t w = place.lane_begin; w < place.used_end(); ++w)
      ForEachDistance(problem_.plan, place, w,
                      [&](int64_t j, double distance) { sums[w] += weights[j * place.panel + w] * static_cast<T>(distance); });
  }

  // What rounding took from a row of head x, which is row i of `out`; nothing where the rounded number is infinite.
  void StoreRemainder(T* row, const StoredRows<std::byte>& out, int64_t x, int64_t i) {
    if constexpr (sizeof(T) == sizeof(float)) {
      SubtractStored(row, shape_.value_dim, out, i);
      StoreRow(row, shape_.value_dim, QueriesOf(problem_.plan, problem_.remainder, panel_->b, panel_->head + x), i);
    }
  }

 protected:
  static constexpr hn::ScalableTag<T> d_{};
  const attention::ForwardProblem<T>& problem_;
  const Shape& shape_;
  attention::ForwardScratch<T>& scratch_;
  Scores<T>& scores_;
  std::span<PositionHook<T>* const> hooks_;
  RowCache<T> values_;
  const Panel* panel_ = nullptr;
  DropoutStream stream_{};
};

// Queries in lanes: the output is columns [Dv, panel] from the first tile on.
template <class T>
class LaneOutput : public PanelOutput<T> {
 public:
  using PanelOutput<T>::PanelOutput;

  void Begin(const Panel& panel) override {
    PanelOutput<T>::Begin(panel);
    blank_ = true;
  }

  void Walk(const PanelWalk& walk) override {
    PanelOutput<T>::Walk(walk);
    const int64_t count = walk.walked.end - walk.walked.begin;
    AskAhead(walk);
    streams_ = problem_.cut.panels == 1 && count >= simd::kStreamedKeys * panel_->width;
    far_ = !streams_ && ComeFromFar(walk.walked, shape_, core::BytesOf(problem_.k.element));
    end_ = walk.keys.end;
  }

  // A panel of few queries computes so little for each key that the keys of the next tile are asked for at every step, and so
  // does one that nobody has brought keys closer for, unless it has about as many queries.
  void Take(const SoftmaxState<T>& state, const TileSight& tile) override {
    if (far_) AskForKeysAndValues(tile.strips()[0].place.tile_key + problem_.cut.tile);
    const Asks asks = streams_ || panel_->used() <= kWaitingQueries ? Asks::kBehind : Asks::kQueue;
    if (tile.masked()) ClearBlank();
    scores_.FillTile(tile, scratch_.scores, asks);
    TakeTile(d_, state, tile, scratch_.scores);
    for (const StripSight& strip : tile.strips()) {
      if (strip.seen == Seen::kNone) continue;
      T* weights = RowsOfStrip(scratch_.scores, strip.place);
      this->WeighStrip(strip.place, weights);
      AddValues(strip, weights, asks);
    }
  }

  void Close() override { ClearBlank(); }

 protected:
  using PanelOutput<T>::problem_, PanelOutput<T>::shape_, PanelOutput<T>::scratch_, PanelOutput<T>::scores_;
  using PanelOutput<T>::values_, PanelOutput<T>::panel_, PanelOutput<T>::d_;

  // output[c, w] += sum over the keys of a place of value[j, c] * weights[j, w].
  virtual void AddValues(const StripSight& strip, T* weights, Asks asks) {
    const TilePlace& place = strip.place;
    const HeadRows<const T> rows = values_.At(place.tile_key, place.key, place.keys);
    if (!TakesAllPairs(strip.seen, [&]() HWY_ATTR { return AllFinite(d_, rows, place.keys, shape_.value_dim); })) {
      ClearBlank();
      VisibleProduct(d_, scratch_.lanes, place, rows, shape_.value_dim, weights, scratch_.output);
      return;
    }
    if (!place.all_used()) ClearBlank();
    const auto multiply = [&](auto& ahead) HWY_ATTR {
      Product(d_, Scalars<T>{rows.data, 1, rows.row_stride}, {weights + place.lane_begin, panel_->width},
              {shape_.value_dim, place.keys, ProductWidth(d_, place.used_end() - place.lane_begin)},
              Target<T>{scratch_.output + place.lane_begin, panel_->width, !blank_}, ahead);
    };
    if (asks == Asks::kBehind) {
      simd::Stream behind = StreamFrom(values_.stored(), place.key + place.keys, shape_.value_dim);
      multiply(behind);
    } else {
      multiply(scratch_.ahead);
    }
    blank_ = false;
  }

  void ClearBlank() {
    if (blank_) std::fill_n(scratch_.output, shape_.value_dim * panel_->width, T{0});
    blank_ = false;
  }

  bool blank_ = true;  // whether the output holds nothing yet, not even zeros

 private:
  // Queries of a panel whose tiles wait for memory.
  static constexpr int64_t kWaitingQueries = 8;

  // Asks for the rows that this panel will write, and for those that the next one begins with.
  void AskAhead(const PanelWalk& walk) {
    const int64_t b = panel_->b;
    const std::optional<attention::PanelPlace>& next = walk.next;
    const attention::Plan& plan = problem_.plan;
    const attention::Cut& cut = problem_.cut;
    simd::Ahead& ahead = scratch_.ahead;
    ahead.Clear();
    for (int64_t x = 0; x < panel_->heads; ++x)
      AskFor(QueriesOf(plan, problem_.out, b, panel_->head + x), panel_->begin, panel_->count, shape_.value_dim, ahead);
    if (!next) return;
    const int64_t begin = next->index * cut.panel, count = std::min(cut.panel, plan.QueryCount(next->b) - begin);
    for (int64_t x = 0; x < cut.group; ++x)
      AskFor(QueriesOf(plan, problem_.q, next->b, next->head + x), begin, count, shape_.head_dim, ahead);
    const int64_t next_kv_head = next->head / (shape_.q_heads / shape_.kv_heads);
    if (next->b == b && next_kv_head == walk.kv_head) return;
    const int64_t keys = std::min(2 * cut.tile, plan.KeyCount(next->b));
    AskFor(KeysOf(plan, problem_.k, next->b, next_kv_head), 0, keys, shape_.head_dim, ahead);
    AskFor(KeysOf(plan, problem_.v, next->b, next_kv_head), 0, keys, shape_.value_dim, ahead);
  }

  // Those of the tile that begins with a key.
  void AskForKeysAndValues(int64_t begin) {
    const int64_t end = std::min(end_, begin + problem_.cut.tile);
    scores_.AskForKeys(begin, end);
    AskFor(values_.stored(), begin, end - begin, shape_.value_dim, scratch_.ahead);
  }

  bool streams_ = false;  // whether keys and values are asked for at every step of a product
  bool far_ = false;      // or a tile ahead
  int64_t end_ = 0;       // of the panel's keys
};

// Lanes of bfloat16 whose weights are rounded too.
class RoundedOutput final : public LaneOutput<float> {
 public:
  using LaneOutput::LaneOutput;

  // The largest weights are near 1, and what stands out alone is not rounded at all.
  float slack() const override { return 0; }

 private:
  void AddValues(const StripSight& strip, float* weights, Asks /*asks*/) override {
    const TilePlace& place = strip.place;
    const int64_t begin = place.lane_begin;
    const int64_t lanes = attention::RoundUp(place.used_end() - begin, attention::kLaneQuantum);
    const bool takes_all =
        TakesAllPairs(strip.seen, [&]() HWY_ATTR { return values_.AllFinite(place.tile_key, place.key, place.keys); });
    if (!takes_all || lanes < panel_->width) ClearBlank();
    if (!takes_all) {
      RoundInPlace(weights + begin, panel_->width, place.keys, lanes);
      VisibleProduct(d_, scratch_.lanes, place, values_.At(place.tile_key, place.key, place.keys), shape_.value_dim, weights,
                     scratch_.output, Steps::kPairs);
      return;
    }
    RoundTile(weights + begin, panel_->width, place.keys, lanes, {.pairs = scratch_.weight_pairs + begin, .rows = nullptr});
    PairProduct(values_.AlongKeys(place.tile_key, place.key, place.keys), AlongTileKeys(place, weights, scratch_.weight_pairs),
                {shape_.value_dim, place.keys, lanes}, {scratch_.output + begin, panel_->width, !blank_}, scratch_.ahead);
    blank_ = false;
  }
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
