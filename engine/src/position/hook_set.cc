// The hooks of all positional schemes for every SIMD target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "position/hook_set.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include <cstddef>
#include <optional>
#include <tuple>
#include <utility>

#include "position/hook_set-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

template <class T>
HookSet<T>::HookSet(const position::SchemeSet<T>& schemes, core::Arena& arena, const attention::Problem& problem,
                    simd::Ahead& ahead) {
  const auto make = [&]<std::size_t... X>(std::index_sequence<X...>) {
    position::HookPlace place{problem.plan, problem.cut, ahead, problem.plan.shape().value_dim};
    (Make(std::get<X>(schemes.calls()), std::get<X>(all_), arena, place), ...);
  };
  make(std::make_index_sequence<std::tuple_size_v<Hooks<T>>>());
}

template <class T>
HookSet<T>::~HookSet() = default;

template <class T>
template <class Call, class Hook>
void HookSet<T>::Make(const std::optional<Call>& call, std::optional<Hook>& hook, core::Arena& arena,
                      position::HookPlace& place) {
  if constexpr (Call::kMeetsTiles) {
    if (!call) return;
    hook.emplace(*call, typename Call::Scratch(arena, *call), place);
    place.output_row += call->output_rows();
    present_[count_++] = &*hook;
  }
}

template class HookSet<float>;
template class HookSet<double>;

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
