// How far the keys of a tile stand from its queries.
#if defined(HEED_ATTENTION_DISTANCES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_DISTANCES_INL_H_
#undef HEED_ATTENTION_DISTANCES_INL_H_
#else
#define HEED_ATTENTION_DISTANCES_INL_H_
#endif

#include <cmath>
#include <cstdint>

#include "attention/plan.h"
#include "attention/position_hook-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

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
