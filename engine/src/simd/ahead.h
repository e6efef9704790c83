// Memory that is needed soon, asked for while the register tiles compute. Short sequences begin a new head every few
// microseconds, and each beginning would wait for memory: hardware follows a stream only once it has begun.
#ifndef HEED_SIMD_AHEAD_H_
#define HEED_SIMD_AHEAD_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "simd/tuning.h"

namespace heed::simd {

constexpr int64_t kLineBytes = 64;

// Asks for a line, whatever lies there, to be kept in the second-level cache. Inlined by force: compilers drop calls of
// functions that do nothing else.
[[gnu::always_inline]] inline void AskSecondLevel(const void* line) {
  constexpr int kInSecondLevel = 2;
  __builtin_prefetch(line, 0, kInSecondLevel);
}

// What a product may do for memory on its way: between() is called between two register tiles, step() at every step of one with
// a place that the tile keeps in registers.
struct NothingAhead {
  struct Place {};
  void between() {}
  Place place() const { return {}; }
  void set_place(Place) {}
  static void step(Place&) {}
};

// One line at every step, of rows of row_bytes that lie stride_bytes apart, whatever stands there: where there is less
// computing than memory, a few lines between tiles come too late.
class Stream {
 public:
  struct Place {
    const std::byte *line, *row_end;
    int64_t stride_bytes, gap;
  };
  Stream(const std::byte* row, int64_t row_bytes, int64_t stride_bytes)
      : place_{row, row + row_bytes, stride_bytes, stride_bytes - RoundedUp(row_bytes)} {
    // Rows without gaps are one.
    if (row_bytes == stride_bytes) place_.row_end = nullptr;
  }
  void between() {}
  Place place() const { return place_; }
  void set_place(const Place& place) { place_ = place; }
  static void step(Place& place) {
    AskSecondLevel(place.line);
    place.line += kLineBytes;
    if (place.row_end == nullptr || place.line < place.row_end) return;
    place.line += place.gap;
    place.row_end += place.stride_bytes;
  }

 private:
  static int64_t RoundedUp(int64_t bytes) { return (bytes + kLineBytes - 1) / kLineBytes * kLineBytes; }

  Place place_;
};

// A queue of rows. What does not fit is left out: asking for memory changes nothing but time.
class Ahead : public NothingAhead {
 public:
  void Clear() {
    begin_ = end_ = 0;
    at_ = 0;
  }

  // Rows of row_bytes, stride_bytes apart (which may be negative).
  void Add(const std::byte* data, int64_t row_bytes, int64_t stride_bytes, int64_t rows) {
    if (end_ == static_cast<int>(queue_.size()) || row_bytes <= 0 || rows <= 0) return;
    // Rows without gaps are one.
    if (row_bytes == stride_bytes) row_bytes *= rows, rows = 1;
    queue_[static_cast<std::size_t>(end_++)] = {data, row_bytes, stride_bytes, rows};
  }

  // Asks for the next few lines.
  void between() {
    if (begin_ == end_) return;
    for (int line = 0; line < kAheadLines; ++line) {
      Rows& rows = queue_[static_cast<std::size_t>(begin_)];
      __builtin_prefetch(rows.data + at_);
      at_ += kLineBytes;
      if (at_ < rows.row_bytes) continue;
      at_ = 0;
      rows.data += rows.stride_bytes;
      if (--rows.rows > 0) continue;
      if (++begin_ == end_) {
        Clear();
        return;
      }
    }
  }

 private:
  struct Rows {
    const std::byte* data;
    int64_t row_bytes, stride_bytes, rows;
  };
  std::array<Rows, 12> queue_;
  int begin_ = 0, end_ = 0;
  int64_t at_ = 0;  // bytes of the first row that have been asked for
};

}  // namespace heed::simd

#endif  // HEED_SIMD_AHEAD_H_
