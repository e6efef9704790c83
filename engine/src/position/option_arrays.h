// The memory behind all options of a call.
#ifndef HEED_POSITION_OPTION_ARRAYS_H_
#define HEED_POSITION_OPTION_ARRAYS_H_

#include <variant>

#include "core/option_arrays.h"
#include "position/scheme_set.h"

namespace heed::position {

// Calls visit(name, view) for every array that the options bring. Options: Attention or const Attention.
template <class Options, class Visit>
void ForEachArray(Options& attention, const Visit& visit) {
  core::ForEachOptionArray(attention, visit);
  ForEachSchemeArray(attention,
                     [&](const char* name, auto& table) { std::visit([&](auto& view) { visit(name, view); }, table); });
}

}  // namespace heed::position

#endif  // HEED_POSITION_OPTION_ARRAYS_H_
