// Checks that tables by offset share. All throw InvalidArgument.
#ifndef HEED_POSITION_TABLE_CHECKS_H_
#define HEED_POSITION_TABLE_CHECKS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <variant>

#include "core/arrays.h"
#include "heed/attention.h"

namespace heed::position {

template <int Rank>
std::array<int64_t, static_cast<std::size_t>(Rank)> ExtentOf(const Table<Rank>& table) {
  return std::visit([](const auto& view) { return core::ExtentsOf(view).extent; }, table);
}

// How many rows, 2M+1 of them, a table may have so that vectors of 32-bit numbers can hold their indices, or those of their
// products with a panel of 64 queries.
constexpr int64_t kMostOffsets = int64_t{1} << 30, kMostMultipliedOffsets = int64_t{1} << 25;
void CheckOffsetRows(const char* name, int64_t rows, int64_t most);

// Tables by whole offsets need whole positions.
void CheckWholePositions(const char* scheme, const Attention& attention);

}  // namespace heed::position

#endif  // HEED_POSITION_TABLE_CHECKS_H_
