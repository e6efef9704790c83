// The memory behind all options of a call.
#ifndef HEED_POSITION_OPTION_ARRAYS_H_
#define HEED_POSITION_OPTION_ARRAYS_H_

#include <type_traits>
#include <variant>

#include "heed/attention.h"
#include "position/scheme_set.h"

namespace heed::position {

// Calls visit(name, view) for every array that the options bring. Options: Attention or const Attention.
template <class Options, class Visit>
void ForEachArray(Options& attention, const Visit& visit) {
  const auto where_present = [&](const char* name, auto& view) {
    if (view.present()) visit(name, view);
  };
  const auto any_type = [&](const char* name, auto& variant) {
    std::visit(
        [&](auto& view) {
          if constexpr (!std::is_same_v<std::remove_cvref_t<decltype(view)>, std::monostate>) visit(name, view);
        },
        variant);
  };
  where_present("query_lengths", attention.query_lengths.values);
  where_present("key_lengths", attention.key_lengths.values);
  where_present("prefix_lengths", attention.prefix_lengths.values);
  where_present("packed.query_offsets", attention.packed.query_offsets);
  where_present("packed.key_offsets", attention.packed.key_offsets);
  any_type("query_positions", attention.query_positions.list);
  any_type("key_positions", attention.key_positions.list);
  where_present("mask", attention.mask.values);
  ForEachScheme([&]<class Scheme>() {
    Scheme::ForEachArray(attention,
                         [&](const char* name, auto& table) { std::visit([&](auto& view) { visit(name, view); }, table); });
  });
}

}  // namespace heed::position

#endif  // HEED_POSITION_OPTION_ARRAYS_H_
