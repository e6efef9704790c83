// A table as the kernels read it, and where its gradient is gathered.
#ifndef HEED_POSITION_TABLE_PARTS_H_
#define HEED_POSITION_TABLE_PARTS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <variant>

#include "core/arena.h"
#include "heed/attention.h"
#include "position/scheme.h"
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

// What shares a table: all batch rows and heads; or all batch rows, and every query head has one; or likewise, one so small
// that every batch row may have a part of its gradient.
enum class SharedBy { kAll, kBatch, kBatchInParts };

// The gradient of tables [tables, rows, width] that is gathered in a part for each chunk and, of kAll, for each block, of
// kBatch for each copy of the block's pairs, of kBatchInParts for each batch row. So what it takes is a multiple of the table
// that no batch and no length makes larger, but for small ones.
template <class T>
class TableParts {
 public:
  // padded: elements from one row of a part to the next.
  TableParts(const CallFacts& call, SharedBy by, const View<T, 3>& wanted, int64_t padded)
      : by_(by), wanted_(wanted), padded_(padded), chunks_(call.cut.chunks), copies_(call.shape.batch) {}

  // One table that all share; a row or a number for every query head.
  static View<T, 3> One(const View<T, 2>& table) {
    return {table.data, {1, table.extent[0], table.extent[1]}, {0, table.stride[0], table.stride[1]}};
  }
  static View<T, 3> Rows(const View<T, 2>& rows) {
    return {rows.data, {rows.extent[0], 1, rows.extent[1]}, {rows.stride[0], 0, rows.stride[1]}};
  }
  static View<T, 3> Numbers(const View<T, 1>& numbers) {
    return {numbers.data, {numbers.extent[0], 1, 1}, {numbers.stride[0], 0, 0}};
  }

  bool wanted() const { return wanted_.present(); }
  void ShareIn(Blocks& blocks) const {
    if (wanted() && by_ == SharedBy::kBatch)
      blocks.Share(true, false, attention::DivideUp(simd::kBiasTasks, chunks_), simd::kBiasCopies);
  }
  int64_t most_blocks() const {
    const bool limited = wanted() && by_ == SharedBy::kAll;
    return limited ? std::max<int64_t>(1, simd::kTableParts / chunks_) : std::numeric_limits<int64_t>::max();
  }
  void Lay(core::Arena& arena, const Blocks& blocks) {
    if (!wanted()) return;
    if (by_ != SharedBy::kBatchInParts) copies_ = by_ == SharedBy::kAll ? blocks.count() : blocks.copies();
    data_ = arena.Take<T>(wanted_.extent[0], copies_, chunks_, wanted_.extent[1], padded_);
  }
  // The part [rows, padded] of a block and its chunk, of one of its batch rows and query heads; null where not wanted.
  T* At(int64_t block, int64_t b, int64_t head, int64_t chunk) const {
    if (!wanted()) return nullptr;
    const int64_t copy = by_ == SharedBy::kBatchInParts ? b : block % copies_;
    return PartsOf(by_ == SharedBy::kAll ? 0 : head) + (copy * chunks_ + chunk) * size();
  }

  // Steps of clearing and summing: some rows of a table each.
  int64_t sums() const { return wanted() ? wanted_.extent[0] * steps() : 0; }
  void Clear(int64_t sum) const {
    T* parts = PartsOf(sum / steps());
    for (int64_t part = 0; part < copies_ * chunks_; ++part)
      std::fill(parts + part * size() + FirstRow(sum) * padded_, parts + part * size() + LastRow(sum) * padded_, T{0});
  }
  void Finish(int64_t sum) const {
    for (int64_t r = FirstRow(sum); r < LastRow(sum); ++r)
      for (int64_t c = 0; c < wanted_.extent[2]; ++c)
        wanted_(sum / steps(), r, c) = Sum(PartsOf(sum / steps()) + r * padded_ + c);
  }

 private:
  static constexpr int64_t kRows = 64;
  int64_t size() const { return wanted_.extent[1] * padded_; }
  int64_t steps() const { return attention::DivideUp(wanted_.extent[1], kRows); }
  int64_t FirstRow(int64_t sum) const { return sum % steps() * kRows; }
  int64_t LastRow(int64_t sum) const { return std::min(FirstRow(sum) + kRows, wanted_.extent[1]); }
  T* PartsOf(int64_t table) const { return data_ + table * copies_ * chunks_ * size(); }

  // Of an entry of all parts. Chunks of a batch row that has parts of its own first, then batch rows.
  T Sum(const T* entry) const {
    T total = 0;
    for (int64_t copy = 0; copy < copies_; ++copy) {
      const bool apart = by_ == SharedBy::kBatchInParts;
      T sum = apart ? T{0} : total;
      for (int64_t chunk = 0; chunk < chunks_; ++chunk, entry += size()) sum += *entry;
      total = apart ? total + sum : sum;
    }
    return total;
  }

  SharedBy by_;
  const View<T, 3> wanted_;
  int64_t padded_, chunks_, copies_;
  T* data_ = nullptr;
};

// A scheme with kTables tables, or options alike, whose gradients are gathered so.
template <class T, std::size_t kTables>
class TableCall : public SchemeCall<T> {
 public:
  explicit TableCall(const std::array<TableParts<T>, kTables>& parts) : parts_(parts) {}

  // Where a tile gathers the gradient of table x, see TableParts::At.
  T* Part(std::size_t x, int64_t block, int64_t b, int64_t head, int64_t chunk) const {
    return parts_[x].At(block, b, head, chunk);
  }

  bool wants_scores() const {
    return std::any_of(parts_.begin(), parts_.end(), [](const TableParts<T>& parts) { return parts.wanted(); });
  }
  void ShareIn(Blocks& blocks) const {
    for (const TableParts<T>& parts : parts_) parts.ShareIn(blocks);
  }
  int64_t most_blocks() const {
    int64_t most = std::numeric_limits<int64_t>::max();
    for (const TableParts<T>& parts : parts_) most = std::min(most, parts.most_blocks());
    return most;
  }
  void LayParts(core::Arena& arena, const Blocks& blocks) {
    for (TableParts<T>& parts : parts_) parts.Lay(arena, blocks);
  }
  int64_t sums() const {
    int64_t all = 0;
    for (const TableParts<T>& parts : parts_) all += parts.sums();
    return all;
  }
  void Clear(int64_t sum) const {
    const TableParts<T>& parts = PartsOf(sum);
    parts.Clear(sum);
  }
  void Finish(int64_t sum) const {
    const TableParts<T>& parts = PartsOf(sum);
    parts.Finish(sum);
  }

 protected:
  bool wanted(std::size_t x) const { return parts_[x].wanted(); }

 private:
  // Those that one of all steps is about; sum becomes their own step.
  const TableParts<T>& PartsOf(int64_t& sum) const {
    std::size_t x = 0;
    for (; sum >= parts_[x].sums(); ++x) sum -= parts_[x].sums();
    return parts_[x];
  }

  std::array<TableParts<T>, kTables> parts_;
};

}  // namespace heed::position

#endif  // HEED_POSITION_TABLE_PARTS_H_
