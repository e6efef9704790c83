// The hooks of one worker, in the order of the list of schemes, for those that its call asks for.
#if defined(HEED_POSITION_HOOK_SET_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_POSITION_HOOK_SET_INL_H_
#undef HEED_POSITION_HOOK_SET_INL_H_
#else
#define HEED_POSITION_HOOK_SET_INL_H_
#endif

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <tuple>

#include "core/arena.h"
#include "position/hooks-inl.h"
#include "position/scheme_set.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

// Made and destroyed in hook_set.cc alone, for float and double: where hooks are made their methods are compiled, and these are
// as much to compile as a kernel.
template <class T>
class HookSet {
 public:
  // Their scratch areas come from `arena`, in the layout of SchemeSet::LayScratch. value_dim: where rows behind the values
  // begin.
  HookSet(const position::SchemeSet<T>& schemes, core::Arena& arena, const attention::Problem& problem, simd::Ahead& ahead);
  ~HookSet();
  HookSet(const HookSet&) = delete;
  HookSet& operator=(const HookSet&) = delete;

  std::span<PositionHook<T>* const> hooks() const { return {present_.data(), count_}; }

 private:
  template <class Call, class Hook>
  void Make(const std::optional<Call>& call, std::optional<Hook>& hook, core::Arena& arena, position::HookPlace& place);

  Hooks<T> all_;
  std::array<PositionHook<T>*, std::tuple_size_v<Hooks<T>>> present_{};
  std::size_t count_ = 0;
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
