// A table as the kernels read it, and where its gradient is gathered.
#ifndef HEED_POSITION_TABLE_PARTS_H_
#define HEED_POSITION_TABLE_PARTS_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <variant>

#include "core/arena.h"
#include "heed/attention.h"
#include "position/blocks.h"
#include "position/scheme.h"
#include "position/table_checks.h"
#include "simd/tuning.h"

namespace heed::position {

// The rows of a table in the type of computation: the caller's own where they have it, else a copy made once a call.
template <class T>
class TableRows {
 public:
  explicit TableRows(const Table<2>& table) : table_(table), extent_(ExtentOf(table)) {
    if (const auto* own = std::get_if<View<const T, 2>>(&table)) rows_ = *own;
  }

  void Lay(core::Arena& arena) {
    if (!native()) copy_ = arena.Take<T>(extent_[0], extent_[1]);
    if (copy_) rows_ = View<const T, 2>::Contiguous(copy_, extent_);
  }
  void Prepare() const {
    if (native()) return;
    std::visit(
        [&](const auto& table) {
          for (int64_t r = 0; r < extent_[0]; ++r)
            for (int64_t c = 0; c < extent_[1]; ++c) copy_[r * extent_[1] + c] = static_cast<T>(table(r, c));
        },
        table_);
  }
  const View<const T, 2>& rows() const { return rows_; }

 private:
  bool native() const { return std::holds_alternative<View<const T, 2>>(table_); }

  const Table<2>& table_;
  std::array<int64_t, 2> extent_;
  View<const T, 2> rows_;
  T* copy_ = nullptr;
};

// The gradient of a table that all batch rows and heads share, [rows, width]: a part for each block and chunk, so that what it
// takes is a multiple of the table that no batch and no length makes larger.
template <class T>
class TableParts {
 public:
  // padded: elements from one row of a part to the next.
  TableParts(const CallFacts& call, const View<T, 2>& wanted, int64_t padded)
      : wanted_(wanted), padded_(padded), chunks_(call.cut.chunks) {}

  bool wanted() const { return wanted_.present(); }
  int64_t most_blocks() const {
    return wanted() ? std::max<int64_t>(1, simd::kTableParts / chunks_) : std::numeric_limits<int64_t>::max();
  }
  void Lay(core::Arena& arena, const Blocks& blocks) {
    if (!wanted()) return;
    parts_ = blocks.count() * chunks_;
    data_ = arena.Take<T>(blocks.count(), chunks_, wanted_.extent[0], padded_);
  }
  // The part [rows, padded] of a block and chunk, null where not wanted.
  T* At(int64_t block, int64_t chunk) const { return wanted() ? data_ + (block * chunks_ + chunk) * size() : nullptr; }

  // Steps of clearing and summing: some rows each.
  int64_t sums() const { return wanted() ? attention::DivideUp(wanted_.extent[0], kRows) : 0; }
  void Clear(int64_t sum) const {
    for (int64_t part = 0; part < parts_; ++part)
      std::fill(data_ + part * size() + sum * kRows * padded_, data_ + part * size() + LastRow(sum) * padded_, T{0});
  }
  void Finish(int64_t sum) const {
    for (int64_t r = sum * kRows; r < LastRow(sum); ++r)
      for (int64_t c = 0; c < wanted_.extent[1]; ++c) {
        T total = 0;
        for (int64_t part = 0; part < parts_; ++part) total += data_[part * size() + r * padded_ + c];
        wanted_(r, c) = total;
      }
  }

 private:
  static constexpr int64_t kRows = 64;
  int64_t size() const { return wanted_.extent[0] * padded_; }
  int64_t LastRow(int64_t sum) const { return std::min((sum + 1) * kRows, wanted_.extent[0]); }

  const View<T, 2> wanted_;
  int64_t padded_, chunks_, parts_ = 0;
  T* data_ = nullptr;
};

// The gradient of tables that every query head has one of, [Hq, rows, width]: batch rows add to the same.
template <class T>
class HeadTableParts {
 public:
  // padded: elements from one row of a part to the next.
  HeadTableParts(const CallFacts& call, const View<T, 3>& wanted, int64_t padded)
      : wanted_(wanted), padded_(padded), chunks_(call.cut.chunks) {}

  bool wanted() const { return wanted_.present(); }
  void ShareIn(Blocks& blocks) const {
    if (wanted()) blocks.Share(true, false, attention::DivideUp(simd::kBiasTasks, chunks_), simd::kBiasCopies);
  }
  void Lay(core::Arena& arena, const Blocks& blocks) {
    if (!wanted()) return;
    copies_ = blocks.copies();
    data_ = arena.Take<T>(wanted_.extent[0], copies_, chunks_, wanted_.extent[1], padded_);
  }
  // The part [rows, padded] of a block, a head and a chunk, null where not wanted.
  T* At(int64_t block, int64_t head, int64_t chunk) const {
    return wanted() ? data_ + ((head * copies_ + block % copies_) * chunks_ + chunk) * size() : nullptr;
  }

  // Steps of clearing and summing: a head each.
  int64_t sums() const { return wanted() ? wanted_.extent[0] : 0; }
  void Clear(int64_t head) const { std::fill_n(At(0, head, 0), copies_ * chunks_ * size(), T{0}); }
  void Finish(int64_t head) const {
    const T* parts = At(0, head, 0);
    for (int64_t r = 0; r < wanted_.extent[1]; ++r)
      for (int64_t c = 0; c < wanted_.extent[2]; ++c) {
        T total = 0;
        for (int64_t part = 0; part < copies_ * chunks_; ++part) total += parts[part * size() + r * padded_ + c];
        wanted_(head, r, c) = total;
      }
  }

 private:
  int64_t size() const { return wanted_.extent[1] * padded_; }

  const View<T, 3> wanted_;
  int64_t padded_, chunks_, copies_ = 1;
  T* data_ = nullptr;
};

}  // namespace heed::position

#endif  // HEED_POSITION_TABLE_PARTS_H_
