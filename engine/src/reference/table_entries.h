// What tables hold, as doubles.
#ifndef HEED_REFERENCE_TABLE_ENTRIES_H_
#define HEED_REFERENCE_TABLE_ENTRIES_H_

#include <array>
#include <cstdint>
#include <variant>

#include "heed/table.h"

namespace heed::reference {

// Table: any Table<Rank>.
template <class Table>
auto TableExtent(const Table& table) {
  return std::visit([](const auto& view) { return view.extent; }, table);
}

template <class Table, class... Index>
double TableEntry(const Table& table, Index... at) {
  return std::visit([&](const auto& view) { return static_cast<double>(view(at...)); }, table);
}

}  // namespace heed::reference

#endif  // HEED_REFERENCE_TABLE_ENTRIES_H_
