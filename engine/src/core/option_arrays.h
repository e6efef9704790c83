// The memory behind the options of a call that are not those of a positional scheme.
#ifndef HEED_CORE_OPTION_ARRAYS_H_
#define HEED_CORE_OPTION_ARRAYS_H_

#include <type_traits>
#include <variant>

#include "heed/attention.h"

namespace heed::core {

// Calls visit(name, view) for every such array; position/option_arrays.h has all of them. Options: Attention or const
// Attention.
template <class Options, class Visit>
void ForEachOptionArray(Options& attention, const Visit& visit) {
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
}

}  // namespace heed::core

#endif  // HEED_CORE_OPTION_ARRAYS_H_
