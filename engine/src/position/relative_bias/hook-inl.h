// A bias that depends on key position - query position alone: one table per head, read along diagonals. T5 and learned
// relative biases are such tables.
#if defined(HEED_POSITION_RELATIVE_BIAS_HOOK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_POSITION_RELATIVE_BIAS_HOOK_INL_H_
#undef HEED_POSITION_RELATIVE_BIAS_HOOK_INL_H_
#else
#define HEED_POSITION_RELATIVE_BIAS_HOOK_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <variant>

#include "attention/position_hook-inl.h"
#include "attention/problem.h"
#include "heed/log_sum_exp.h"
#include "hwy/highway.h"
#include "position/offset-inl.h"
#include "position/relative_bias/scheme.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A tile touches keys + panel - 1 diagonals. They are laid out by ascending query - key, so that the lanes of one key are one
// unaligned vector: diagonal x of the tile has query - key = x - (keys - 1) counted from the tile's corner. Listed positions
// have no diagonals; there each pair looks its entry up.
template <class T>
class RelativeBiasHook final : public PositionHook<T> {
 public:
  using Call = position::RelativeBiasCall<T>;
  RelativeBiasHook(const Call& call, const typename Call::Scratch& scratch, const position::HookPlace& place)
      : call_(call), offsets_(place.plan, call.max_distance()), diagonals_(scratch.diagonals), copies_(scratch.d_diagonals) {}

  void Begin(const PanelArrays<T>& panel) override {
    offsets_.Begin(panel.b);
    chunk_ = panel.chunk;
  }

  void AddToScores(const TilePlace& place, bool empty, T* scores) override {
    std::visit(
        [&](const auto& table) {
          Add(place, empty, scores,
              [&](int64_t head, int64_t row) { return InPowersOfTwo<T>(static_cast<double>(table(head, row))); });
        },
        call_.table());
  }
  void AddToTangent(const TilePlace& place, T* tangent) override {
    const View<const T, 2>& table = call_.tangent();
    if (table.present()) Add(place, false, tangent, [&](int64_t head, int64_t row) { return table(head, row); });
  }

  bool adds_to_rows() const override { return true; }
  void AddToRow(const TilePlace& place, int64_t w, T* row) override {
    std::visit([&](const auto& table) { AddRow(table, place, w, row); }, call_.table());
  }

  void Accumulate(const TilePlace& place, const T* d_scores) override {
    T* d_table = call_.Part(0, 0, place.b, place.head, chunk_);
    if (!d_table) return;
    if (offsets_.Diagonal(place)) {
      SumDiagonals(d_, place, d_scores, copies_, call_.diagonals(),
                   [&](int64_t x, T sum) { d_table[Column(place, x)] += sum; });
      return;
    }
    for (int64_t w = place.lane_begin; w < place.used_end(); ++w) AddGradient(place, w, d_scores + w);
  }

 private:
  // d_scores: of the tile's first key and lane w.
  void AddGradient(const TilePlace& place, int64_t w, const T* d_scores) {
    T* d_table = call_.Part(0, 0, place.b, place.heads[w], chunk_);
    if (!d_table) return;
    for (int64_t j = 0; j < place.keys; ++j) d_table[offsets_.Row(place, j, w)] += d_scores[j * place.panel];
  }

  template <class V>
  void AddRow(const V& table, const TilePlace& place, int64_t w, T* row) {
    const int64_t keys = place.keys, head = place.heads[w];
    const auto entry = [&](int64_t column) { return InPowersOfTwo<T>(static_cast<double>(table(head, column))); };
    if (offsets_.listed()) {
      for (int64_t j = 0; j < keys; ++j) row[j] += entry(offsets_.Row(place, j, w));
      return;
    }
    // Keys before and behind the table's reach share its ends.
    const auto [before, behind] = offsets_.Unclipped(place, w);
    const auto add = [](T* from, T* to, T term) {
      for (; from < to; ++from) *from += term;
    };
    if (before > 0) add(row, row + before, entry(0));
    for (int64_t j = before; j < behind; ++j) row[j] += entry(offsets_.Row(place, j, w));
    if (behind < keys) add(row + behind, row + keys, entry(2 * offsets_.limit()));
  }

  // entry(head, row): what is added.
  template <class Entry>
  void Add(const TilePlace& place, bool empty, T* scores, const Entry& entry) {
    if (!offsets_.Diagonal(place)) {
      AddScalarTerms(place, empty, scores,
                     [&](int64_t j, int64_t w) { return entry(place.heads[w], offsets_.Row(place, j, w)); });
      return;
    }
    const int64_t diagonals = place.keys + place.panel - 1;
    for (int64_t x = 0; x < diagonals; ++x) diagonals_[x] = entry(place.head, Column(place, x));
    AddTerms(d_, place, empty, scores,
             [&](int64_t j, int64_t w) HWY_ATTR { return hn::LoadU(d_, diagonals_ + (place.keys - 1 - j) + w); });
  }

  // The table's column for diagonal x of a tile.
  int64_t Column(const TilePlace& place, int64_t x) const {
    return offsets_.ClippedRow(offsets_.Corner(place) + place.keys - 1 - x);
  }

  static constexpr hn::ScalableTag<T> d_{};
  const Call& call_;
  Offsets offsets_;
  T *diagonals_, *copies_;
  int64_t chunk_ = 0;  // of the panel at hand
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
