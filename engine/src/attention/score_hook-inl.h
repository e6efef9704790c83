// What a positional scheme may do to a tile of scores. The kernels know this interface and no scheme by name; one call serves
// a whole tile, so that it costs nothing to make it virtual and adds no instance of the kernels.
#if defined(HEED_ATTENTION_SCORE_HOOK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_SCORE_HOOK_INL_H_
#undef HEED_ATTENTION_SCORE_HOOK_INL_H_
#else
#define HEED_ATTENTION_SCORE_HOOK_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

// Where a tile lies: `keys` keys from `key` and, in a panel whose lane 0 is `query`, the lanes lane_begin .. lane_end - 1
// (multiples of the lane quantum). Tiles are stored [keys, panel]; lanes outside the range are not touched.
struct TilePlace {
  int64_t b, h;
  int64_t query, key;
  int64_t keys, panel;
  int64_t lane_begin, lane_end;

  int64_t lanes() const { return lane_end - lane_begin; }
};

template <class T>
class ScoreHook {
 public:
  virtual ~ScoreHook() = default;
  // scores[j, w] = columns[w] + log2(e) * bias(query + w, key + j) for every lane of the tile.
  virtual void Fill(const TilePlace& place, const T* columns, T* scores) = 0;
  // Adds the gradient of the scores to what the scheme's parameters need. d_scores is 0 where masked.
  virtual void Accumulate(const TilePlace& place, const T* d_scores) = 0;
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
