// The options of a case as a call takes them, with the memory behind them.
#ifndef HEED_REFERENCE_TRIAL_SETUP_H_
#define HEED_REFERENCE_TRIAL_SETUP_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <random>
#include <vector>

#include "heed/attention.h"
#include "reference/cases.h"
#include "reference/dense.h"
#include "reference/random_cases.h"
#include "reference/random_tables.h"
#include "reference/schemes.h"

namespace heed::reference {

// 0 .. limit each; of several the first is 0 and the second the limit.
inline std::vector<int64_t> RandomLengths(int64_t count, int64_t limit, std::mt19937_64& random) {
  std::vector<int64_t> lengths(static_cast<size_t>(count) + 1);
  for (int64_t& length : lengths) length = static_cast<int64_t>(random() % static_cast<uint64_t>(limit + 1));
  if (count > 1) lengths[0] = 0;
  if (count > 2) lengths[1] = limit;
  return lengths;
}

// The memory behind an Attention, with everything that a case asks for. A is the accumulation type.
template <class A>
class Setup {
 public:
  Setup(const Case& c, uint64_t seed, std::mt19937_64& random) : case_(c), random_(random) {
    attention.scale = c.scale;
    attention.causal = c.causal;
    attention.window = c.window;
    attention.empty_row = c.empty_row;
    attention.softcap = c.softcap;
    attention.query_positions.offset = c.query_offset;
    attention.key_positions.offset = c.key_offset;
    attention.dropout = {c.dropout, seed * 7919 + 1, 3};
    attention.precision = c.precision;
    if (c.packed) Pack();
    Measure();
    ListPositions();
    AddSchemes(seed);
  }
  Setup(const Setup&) = delete;
  Setup& operator=(const Setup&) = delete;

  Attention attention;
  std::array<int64_t, 4> QueryExtent(int64_t width) const { return {rows_, shape_.q_heads, queries_, width}; }
  std::array<int64_t, 4> KeyExtent(int64_t width) const { return {rows_, shape_.kv_heads, keys_, width}; }

 private:
  void Pack() {
    if (shape_.batch == 0) shape_.q_len = shape_.kv_len = 0;  // the longest of no sequences
    const Shape& s = shape_;
    rows_ = 1;
    const auto cumulate = [&](int64_t limit, std::vector<int64_t>& offsets) {
      offsets = {0};
      for (int64_t b = 0; b < s.batch; ++b)
        offsets.push_back(offsets.back() +
                          (b == 0 ? limit : static_cast<int64_t>(random_() % static_cast<uint64_t>(limit + 1))));
      return offsets.back();
    };
    queries_ = cumulate(s.q_len, query_offsets_);
    keys_ = cumulate(s.kv_len, key_offsets_);
    attention.packed.query_offsets = View<const int64_t, 1>::Contiguous(query_offsets_.data(), {s.batch + 1});
    attention.packed.key_offsets = View<const int64_t, 1>::Contiguous(key_offsets_.data(), {s.batch + 1});
  }

  void Measure() {
    const Shape& s = shape_;
    query_lengths_ = RandomLengths(s.batch, s.q_len, random_);
    const bool per_query = case_.key_lengths == LengthKind::kPerQuery;
    key_lengths_ = RandomLengths(s.batch * (per_query ? s.q_len : 1), s.kv_len, random_);
    prefix_lengths_ = RandomLengths(s.batch, s.kv_len, random_);
    if (case_.query_lengths) attention.query_lengths = Lengths::PerBatch(query_lengths_.data(), s.batch);
    if (case_.key_lengths == LengthKind::kPerBatch) attention.key_lengths = Lengths::PerBatch(key_lengths_.data(), s.batch);
    if (per_query) attention.key_lengths = Lengths::PerQuery(key_lengths_.data(), s.batch, s.q_len);
    if (case_.prefix) attention.prefix_lengths = Lengths::PerBatch(prefix_lengths_.data(), s.batch);
  }

  void ListPositions() {
    if (case_.positions == PositionKind::kNone) return;
    const Shape& s = shape_;
    const bool jumps = case_.positions == PositionKind::kJumping, shuffles = case_.positions == PositionKind::kShuffled;
    const int64_t lists = jumps || shuffles ? s.batch : 1;
    const auto list = [&](int64_t count, std::vector<int64_t>& whole, std::vector<double>& real, Positions& positions) {
      for (int64_t b = 0; b < lists; ++b) {
        int64_t at = jumps ? 0 : -20;
        const bool goes_on = jumps && random_() % 2 == 0;  // as keys mostly do
        for (int64_t t = 0; t < count; ++t) {
          if (jumps && t > 0) at = goes_on ? at + 1 : Jump(at);
          if (!jumps) at += static_cast<int64_t>(random_() % 3);
          whole.push_back(at);
        }
        if (shuffles) Shuffle(whole.end() - count, whole.end(), random_);
      }
      for (int64_t p : whole) real.push_back(0.37 * static_cast<double>(p));
      whole.push_back(0);
      real.push_back(0);
      if (case_.positions == PositionKind::kReal) {
        positions.list = View<const double, 2>::Contiguous(real.data(), {lists, count});
      } else {
        positions.list = View<const int64_t, 2>::Contiguous(whole.data(), {lists, count});
      }
    };
    list(s.q_len, whole_queries_, real_queries_, attention.query_positions);
    list(s.kv_len, whole_keys_, real_keys_, attention.key_positions);
  }

  // Stays, goes on, or lands anywhere around the keys.
  int64_t Jump(int64_t at) {
    const uint64_t kind = random_() % 4;
    if (kind < 3) return at + static_cast<int64_t>(kind % 2);
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(shape_.kv_len + 40)) - 20;
  }

  void AddSchemes(uint64_t seed) {
    const auto fill = [&]<class Scheme>(Random& stream) {
      RandomTables<A> tables(case_.layout, stream, tables_);
      Scheme::Fill(case_, shape_, tables, attention);
    };
    DrawFirst(random_, fill);
    AddMask();
    DrawLater(seed, fill);
  }

  void AddMask() {
    if (case_.mask == kNoDense) return;
    const auto extent = DenseExtent(shape_, case_.mask);
    const int64_t size = extent[0] * extent[1] * extent[2] * extent[3];
    mask_ = std::make_unique<bool[]>(static_cast<size_t>(size) + 1);
    for (int64_t x = 0; x < size; ++x) mask_[static_cast<size_t>(x)] = random_() % 3 != 0;
    attention.mask = Mask{View<const bool, 4>::Contiguous(mask_.get(), extent)};
  }

  const Case& case_;
  std::mt19937_64& random_;
  Shape shape_ = case_.shape;
  int64_t rows_ = shape_.batch, queries_ = shape_.q_len, keys_ = shape_.kv_len;
  std::vector<int64_t> query_offsets_, key_offsets_, query_lengths_, key_lengths_, prefix_lengths_, whole_queries_, whole_keys_;
  std::vector<double> real_queries_, real_keys_;
  TableMemory<A> tables_;
  std::unique_ptr<bool[]> mask_;
};

}  // namespace heed::reference

#endif  // HEED_REFERENCE_TRIAL_SETUP_H_
