// Where queries and keys stand, and which keys a query may look at by order: causality, windows, prefixes. Integers and
// positions alone; lengths and dense masks come on top of it.
#ifndef HEED_ATTENTION_ORDER_H_
#define HEED_ATTENTION_ORDER_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "heed/attention.h"

namespace heed::attention {

// Half-open range of keys, by index or by rank.
struct KeyRange {
  int64_t begin = 0, end = 0;
  bool empty() const { return begin >= end; }
};

// What order allows one query: the keys of `keys`; and of those only the ones whose rank lies in `ranks`, where keys have
// ranks at all.
struct Sight {
  KeyRange keys, ranks;
};

// What order allows the queries of a batch row where positions are not listed: query i the keys begin + i .. end + i - 1 and
// those before `least_end`, as far as there are any.
struct Band {
  int64_t begin, end, least_end, kv_len;

  KeyRange Of(int64_t i) const { return {std::max<int64_t>(0, begin + i), std::max(least_end, std::min(kv_len, end + i))}; }
};

class Order {
 public:
  Order(const Attention& attention, const Shape& shape);

  // Query i of batch row b, which has `q_len` queries and `kv_len` keys.
  Sight Of(int64_t b, int64_t i, int64_t q_len, int64_t kv_len) const;
  // The same of all its queries, where positions are not listed.
  Band BandOf(int64_t b, int64_t q_len, int64_t kv_len) const;
  // Whether all queries of a batch row are allowed the same keys.
  bool SameForAllQueries() const;

  // Whether positions are given one by one. If not, key j stands at j + FirstOffset() from query 0, and query i at i.
  bool listed() const { return listed_; }
  int64_t FirstOffset(int64_t q_len, int64_t kv_len) const;
  // Listed positions, exact in double.
  const double* QueryPositions(int64_t b) const { return query_positions_.data() + Row(query_rows_, b) * q_len_; }
  const double* KeyPositions(int64_t b) const { return key_positions_.data() + Row(key_rows_, b) * kv_len_; }
  // Where keys are listed out of order: the place of each among the different positions of its batch row. Null otherwise.
  const int32_t* KeyRanks(int64_t b) const { return Ranked(b) ? key_ranks_.data() + Row(key_rows_, b) * kv_len_ : nullptr; }

 private:
  // One row of positions may serve every batch row.
  static std::size_t Row(int64_t rows, int64_t b) { return static_cast<std::size_t>(rows == 1 ? 0 : b); }
  bool Ranked(int64_t b) const { return listed_ && bounded_ && !sorted_[Row(key_rows_, b)]; }
  KeyRange Reachable(const double* sorted, int64_t count, double position) const;
  Sight FromList(int64_t b, int64_t i, int64_t kv_len) const;
  void List(const Shape& shape);
  void Rank();

  const Attention& attention_;
  bool listed_, bounded_;  // bounded: causality or a window is at work
  std::size_t q_len_ = 0, kv_len_ = 0;
  int64_t query_rows_ = 1, key_rows_ = 1;
  std::vector<double> query_positions_, key_positions_;  // [rows, N]
  std::vector<bool> sorted_;                             // [key rows]
  std::vector<double> distinct_;                         // the different key positions of every unsorted row, ascending
  std::vector<int64_t> distinct_begin_;                  // [key rows + 1], into distinct_
  std::vector<int32_t> key_ranks_;
};

}  // namespace heed::attention

#endif  // HEED_ATTENTION_ORDER_H_
