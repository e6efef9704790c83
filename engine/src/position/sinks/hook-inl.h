// Sinks meet no tile: a call has no hook of theirs.
#if defined(HEED_POSITION_SINKS_HOOK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_POSITION_SINKS_HOOK_INL_H_
#undef HEED_POSITION_SINKS_HOOK_INL_H_
#else
#define HEED_POSITION_SINKS_HOOK_INL_H_
#endif

#include "attention/position_hook-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

template <class T>
class SinksHook final : public PositionHook<T> {};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
