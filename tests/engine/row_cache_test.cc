// The rows that a worker walks, on every target: the caller's own where they can be read as they are, else copies of the right
// numbers, which stay as long as the walk goes over the same keys.
#include <cstdint>
#include <string>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "row_cache_test.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "attention/row_cache-inl.h"
#include "core/arena.h"
#include "heed/workspace.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

constexpr int64_t kTile = 16, kKeys = 40, kElements = 5;

// Rows of kElements numbers, `gap` apart, that begin with a number of their own.
template <class V>
struct Source {
  std::vector<V> memory;
  int64_t gap;

  Source(int64_t apart, int first) : memory(static_cast<std::size_t>(kKeys * kElements * apart)), gap(apart) { Fill(first); }
  void Fill(int first) {
    for (int64_t x = 0; x < kKeys * kElements; ++x) {
      V& entry = memory[static_cast<std::size_t>(x * gap)];
      const auto number = static_cast<float>(first + x % 101);
      if constexpr (std::is_same_v<V, BFloat16>) {
        entry = ToBFloat16(number);
      } else {
        entry = static_cast<V>(number);
      }
    }
  }
  StoredRows<const std::byte> rows() const {
    return {reinterpret_cast<const std::byte*>(memory.data()), kElements * gap, gap, core::ElementOf<V>()};
  }
};

float NumberOf(int64_t key, int64_t c, int first) { return static_cast<float>(first + (key * kElements + c) % 101); }

float Element(const simd::PairScalars& operand, int64_t row, int64_t step) {
  const int64_t at = row * operand.row_stride;
  if (!InPairs()) return static_cast<const float*>(operand.data)[at + step * operand.step_stride];
  return ToFloat(BFloat16{static_cast<const uint16_t*>(operand.data)[at + step / 2 * operand.step_stride + step % 2]});
}

template <class V>
std::string Fault(int64_t gap, bool held) {
  constexpr bool kNarrow = std::is_same_v<V, BFloat16>;
  Source<V> source(gap, 1);
  attention::HeldRows<float> room;
  core::Arena counted;
  room.Lay(counted, kKeys, held, kNarrow, kTile, kTile);
  Workspace workspace(counted.used());
  core::Arena arena(workspace.data());
  room.Lay(arena, kKeys, held, kNarrow, kTile, kTile);
  RowCache<float> cache(room, kElements);
  cache.Walk(source.rows(), 0, kKeys);
  const auto wrong = [&](int64_t tile, int64_t key, int64_t count, int first) -> std::string {
    const HeadRows<const float> rows = cache.At(tile, key, count);
    for (int64_t j = 0; j < count; ++j)
      for (int64_t c = 0; c < kElements; ++c)
        if (*rows.At(j, c) != NumberOf(key + j, c, first)) return "key " + std::to_string(key + j);
    for (int64_t j = 0; kNarrow && j < count; ++j) {
      const simd::PairScalars along_elements = cache.AlongElements(tile, key, count),
                              along_keys = cache.AlongKeys(tile, key, count);
      for (int64_t c = 0; c < kElements; ++c) {
        const float of_row = Element(along_elements, j, c), of_column = Element(along_keys, c, j);
        if (of_row != NumberOf(key + j, c, first)) return "bits of key " + std::to_string(key + j);
        if (of_column != NumberOf(key + j, c, first)) return "pairs of key " + std::to_string(key + j);
      }
    }
    return {};
  };
  for (const int64_t tile : {0, 16, 32, 0})
    if (std::string fault = wrong(tile, tile + 2, tile == 32 ? 6 : 14, 1); !fault.empty()) return fault;
  // Other numbers in the same place: who may read them where they stand does, copies are those of the walk.
  const bool own = !kNarrow && gap == 1;
  if (own != (reinterpret_cast<const std::byte*>(cache.At(0, 0, 1).data) == source.rows().data)) return "whose rows";
  source.Fill(7);
  if (gap > 1 || !kNarrow) {
    if (const std::string fault = wrong(0, 2, 14, own ? 7 : 1); !fault.empty()) return "kept, " + fault;
  }
  // Another walk of the same rows.
  cache.Walk(source.rows(), 0, kTile);
  if (const std::string fault = wrong(0, 2, 14, 7); !fault.empty()) return "anew, " + fault;
  return {};
}

std::string FirstFault() {
  for (const int64_t gap : {1, 3})
    for (const bool held : {true, false}) {
      std::string fault = Fault<float>(gap, held);
      if (fault.empty()) fault = Fault<BFloat16>(gap, held);
      if (!fault.empty()) return "every " + std::to_string(gap) + (held ? ", held: " : ", a tile: ") + fault;
    }
  return {};
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <gtest/gtest.h>

#include "heed/attention.h"
#include "targets.h"

namespace heed {
HWY_EXPORT(FirstFault);

namespace {

class RowCacheOf : public OnTarget {};

TEST_P(RowCacheOf, AWalkHasItsOwnNumbersInEveryForm) { EXPECT_EQ(HWY_DYNAMIC_DISPATCH(FirstFault)(), ""); }

HEED_ON_TARGETS(RowCacheOf);

}  // namespace
}  // namespace heed
#endif
