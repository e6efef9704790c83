// The hooks of one worker, in the order of the list of schemes, for those that its call asks for.
#if defined(HEED_POSITION_HOOK_SET_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_POSITION_HOOK_SET_INL_H_
#undef HEED_POSITION_HOOK_SET_INL_H_
#else
#define HEED_POSITION_HOOK_SET_INL_H_
#endif

#include <array>
#include <cstddef>
#include <span>
#include <tuple>
#include <utility>

#include "core/arena.h"
#include "position/hook_place.h"
#include "position/hooks-inl.h"
#include "position/scheme_set.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

template <class T>
class HookSet {
 public:
  // Their scratch areas come from `arena`, in the layout of SchemeSet::LayScratch. value_dim: where rows behind the values
  // begin.
  HookSet(const position::SchemeSet<T>& schemes, core::Arena& arena, const attention::Problem& problem, simd::Ahead& ahead) {
    const auto make = [&]<std::size_t... X>(std::index_sequence<X...>) {
      position::HookPlace place{problem.plan, problem.cut, ahead, problem.plan.shape().value_dim};
      (Make(std::get<X>(schemes.calls()), std::get<X>(all_), arena, place), ...);
    };
    make(std::make_index_sequence<std::tuple_size_v<Hooks<T>>>());
  }
  HookSet(const HookSet&) = delete;
  HookSet& operator=(const HookSet&) = delete;

  std::span<PositionHook<T>* const> hooks() const { return {present_.data(), count_}; }

 private:
  template <class Call, class Hook>
  void Make(const std::optional<Call>& call, std::optional<Hook>& hook, core::Arena& arena, position::HookPlace& place) {
    if (!call) return;
    hook.emplace(*call, typename Call::Scratch(arena, *call), place);
    place.output_row += call->output_rows();
    present_[count_++] = &*hook;
  }

  Hooks<T> all_;
  std::array<PositionHook<T>*, std::tuple_size_v<Hooks<T>>> present_{};
  std::size_t count_ = 0;
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
