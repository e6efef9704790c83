// Paths between positions: how many hops, or how many stacked layers, until information from one reaches another.
#ifndef HEED_BOOK_COMPARISON_REACHABILITY_H_
#define HEED_BOOK_COMPARISON_REACHABILITY_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "book/comparison/position_set.h"

namespace heed::lab {

// Square boolean matrix: Get(i, j) when position i reads position j.
class BitMatrix {
 public:
  explicit BitMatrix(int64_t size);  // all false
  explicit BitMatrix(const std::vector<PositionSet>& rows);
  static BitMatrix Identity(int64_t size);

  int64_t size() const { return size_; }
  bool Get(int64_t row, int64_t column) const { return (Row(row)[column / 64] >> (column % 64) & 1) != 0; }
  void Set(int64_t row, int64_t column) { Row(row)[column / 64] |= uint64_t{1} << (column % 64); }

  friend BitMatrix operator*(const BitMatrix& a, const BitMatrix& b);  // "or" of "and"s
  bool operator==(const BitMatrix&) const = default;

 private:
  const uint64_t* Row(int64_t row) const { return &bits_[row * words_]; }
  uint64_t* Row(int64_t row) { return &bits_[row * words_]; }

  int64_t size_, words_;
  std::vector<uint64_t> bits_;
};

inline constexpr int64_t kNever = -1;

// What is reached by stacking layers, to each of whose dependency patterns staying in place is added (it costs no hop), so that
// what the first m layers reach grows with m.
class Reachability {
 public:
  // The same pattern in every layer.
  explicit Reachability(BitMatrix pattern);
  // One pattern a layer, from the input; beyond the last everything stays in place. At least one.
  explicit Reachability(std::vector<BitMatrix> layers);

  // The smallest number of layers of which `reached` is true, kNever if no number is. `reached` must stay true once it is.
  int64_t SmallestDepth(const std::function<bool(const BitMatrix&)>& reached) const;

  int64_t Hops(int64_t from, int64_t to) const;
  // The longest of the shortest paths over all pairs; only from earlier to later positions when causal.
  int64_t LongestPath(bool causal) const;
  // Until some position depends on both.
  int64_t UntilSeenTogether(int64_t a, int64_t b) const;

 private:
  int64_t SmallestPower(const std::function<bool(const BitMatrix&)>& reached) const;

  int64_t size_;
  bool uniform_;
  // Powers 1, 2, 4, ... of the one pattern until they stop growing; or what the first 1, 2, 3, ... layers reach.
  std::vector<BitMatrix> reached_;
};

}  // namespace heed::lab

#endif  // HEED_BOOK_COMPARISON_REACHABILITY_H_
