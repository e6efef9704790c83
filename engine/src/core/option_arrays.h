// The memory behind the options of a call.
#ifndef HEED_CORE_OPTION_ARRAYS_H_
#define HEED_CORE_OPTION_ARRAYS_H_

#include <type_traits>
#include <variant>

#include "heed/attention.h"

namespace heed::core {

// Calls visit(name, view) for every array that the options bring. Options: Attention or const Attention.
template <class Options, class Visit>
void ForEachArray(Options& attention, const Visit& visit) {
  // All options by name: a new one does not compile before this says whether it brings memory.
  auto& [scale, causal, window, query_lengths, key_lengths, prefix_lengths, packed, query_positions, key_positions, mask, bias,
         relative_bias, slope_bias, content_bias, softcap, dropout, empty_row] = attention;
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
  where_present("query_lengths", query_lengths.values);
  where_present("key_lengths", key_lengths.values);
  where_present("prefix_lengths", prefix_lengths.values);
  where_present("packed.query_offsets", packed.query_offsets);
  where_present("packed.key_offsets", packed.key_offsets);
  any_type("query_positions", query_positions.list);
  any_type("key_positions", key_positions.list);
  where_present("mask", mask.values);
  if (bias) any_type("bias", bias->values);
  if (relative_bias) any_type("relative_bias", relative_bias->table);
  if (slope_bias) any_type("slope_bias", slope_bias->slopes);
  if (!content_bias) return;
  if (content_bias->keys) any_type("content_bias.keys", *content_bias->keys);
  if (content_bias->values) any_type("content_bias.values", *content_bias->values);
  if (content_bias->queries) any_type("content_bias.queries", *content_bias->queries);
}

}  // namespace heed::core

#endif  // HEED_CORE_OPTION_ARRAYS_H_
