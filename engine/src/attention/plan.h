// What has to be computed, in integers alone: which keys each query may look at, how the work is cut into panels, chunks and
// tasks. Nothing here depends on the number of threads or on the instruction set, so neither do the results' order of sums.
#ifndef HEED_ATTENTION_PLAN_H_
#define HEED_ATTENTION_PLAN_H_

#include <algorithm>
#include <cstdint>

#include "heed/attention.h"

namespace heed::attention {

// Half-open range of keys.
struct KeyRange {
  int64_t begin = 0, end = 0;
  bool empty() const { return begin >= end; }
};

// One query's view of the keys.
struct QueryRow {
  KeyRange keys;
  bool uniform = false;  // no key of its own, looks at all of them alike (EmptyRow::kUniform)
  bool active() const { return !keys.empty(); }
};

// What a panel of neighbouring queries sees together: nothing outside `reach`; inside `interior` every active query of the
// panel sees every key and no mask is needed.
struct PanelRange {
  KeyRange reach, interior;
  bool NeedsMask(int64_t begin, int64_t end) const { return begin < interior.begin || end > interior.end; }
};

// How queries and keys of one call relate.
class Plan {
 public:
  Plan(const Attention& attention, const Shape& shape);

  QueryRow Row(int64_t b, int64_t i) const;
  // The rows q_begin .. q_begin + q_count - 1, written to `rows`, and what they see together.
  PanelRange Panel(int64_t b, int64_t q_begin, int64_t q_count, QueryRow* rows) const;
  KeyRange Reach(int64_t b, int64_t q_begin, int64_t q_count) const;

  const Shape& shape() const { return shape_; }
  double scale() const { return scale_; }
  // key position - query position of key 0 and query 0
  int64_t first_offset() const { return key_offset_ - query_offset_; }

 private:
  // Whether every query of a batch row sees the same keys.
  bool SameForAllQueries() const;

  const Attention& attention_;
  Shape shape_;
  double scale_;
  int64_t query_offset_, key_offset_;
};

// Sizes in elements. A panel is as many queries as fill the SIMD lanes of one register tile; a tile is as many keys as keep
// its scores, keys and values in the first-level cache; a chunk is the keys whose gradients one backward task owns.
struct Cut {
  int64_t panel;     // queries, a multiple of kLaneQuantum
  int64_t tile;      // keys, a multiple of kDropoutKeys
  int64_t panels;    // per head
  int64_t chunk;     // keys, a multiple of tile
  int64_t chunks;    // per head
  int64_t head_dim;  // D and Dv rounded up to kLaneQuantum
  int64_t value_dim;
};

// Elements in the widest vector: panels and padded widths are multiples of it on every target.
constexpr int64_t kLaneQuantum = 16;
// Keys that share one call of the random generator.
constexpr int64_t kDropoutKeys = 8;

constexpr int64_t RoundUp(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }
constexpr int64_t DivideUp(int64_t n, int64_t divisor) { return (n + divisor - 1) / divisor; }

// The part of a panel's reach that lies in one chunk of keys, from the start of its first tile.
inline KeyRange ChunkReach(const Cut& cut, const KeyRange& reach, int64_t chunk) {
  return {std::max(chunk * cut.chunk, reach.begin / cut.tile * cut.tile), std::min((chunk + 1) * cut.chunk, reach.end)};
}

Cut CutWork(const Shape& shape, int element_bytes);

}  // namespace heed::attention

#endif  // HEED_ATTENTION_PLAN_H_
