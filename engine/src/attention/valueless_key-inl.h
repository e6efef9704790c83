// The softmax of a panel takes in one more key a lane, whose weight meets no value.
#if defined(HEED_ATTENTION_VALUELESS_KEY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_VALUELESS_KEY_INL_H_
#undef HEED_ATTENTION_VALUELESS_KEY_INL_H_
#else
#define HEED_ATTENTION_VALUELESS_KEY_INL_H_
#endif

#include <cstdint>
#include <limits>

#include "attention/panel-inl.h"
#include "attention/position_hook-inl.h"
#include "attention/problem.h"
#include "attention/softmax_state-inl.h"
#include "attention/valueless_key.h"
#include "heed/log_sum_exp.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

// Where the call has such a key; the state has taken all others of the panel, whoever walked them. Lanes that have seen none
// stay as they are. room: [panel].
template <class T>
void TakeValuelessKey(const attention::Problem& problem, const Panel& panel, const attention::Lanes<T>& lanes,
                      const SoftmaxState<T>& state, T* room) {
  if (!problem.valueless_key) return;
  const int64_t row = problem.plan.ArrayRow(panel.b), first = problem.plan.FirstQuery(panel.b);
  for (int64_t w = 0; w < panel.width; ++w) {
    const bool any = w < panel.used() && state.sum[w] != 0;
    room[w] = any ? InPowersOfTwo<T>(problem.valueless_key->Score(row, lanes.head[w], first + lanes.query[w]))
                  : -std::numeric_limits<T>::infinity();
  }
  state.Update(hn::ScalableTag<T>(), room, 1, 0, panel.width, SoftmaxState<T>::kNoKey);
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
