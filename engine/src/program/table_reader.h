// Single numbers of the tables that a call brings along.
#ifndef HEED_PROGRAM_TABLE_READER_H_
#define HEED_PROGRAM_TABLE_READER_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <variant>
#include <vector>

#include "heed/score_program.h"
#include "program/code.h"
#include "program/operation.h"

namespace heed::program {

// Where an entry lies: indices of all four dimensions; none where an index is outside.
struct Entry {
  std::array<int64_t, 4> index{};
  bool inside = false;
};

// Where a row of entries lies in memory, index by index.
class EntryRow {
 public:
  static constexpr int64_t kMost = 64;

  explicit EntryRow(int64_t count) : count_(count) {
    std::fill_n(at_.begin(), count, 0);
    std::fill_n(inside_.begin(), count, char{1});
  }
  // The next index of each entry: numbers[n * step]. Negative ones count from the end.
  template <class E>
  void Add(int64_t extent, int64_t stride, const E* numbers, int64_t step) {
    const auto limit = static_cast<double>(extent);
    for (int64_t n = 0; n < count_; ++n) {
      const auto number = static_cast<double>(numbers[n * step]);
      const double index = number < 0 ? number + limit : number;
      const bool inside = index >= 0 && index < limit;
      inside_[Place(n)] &= static_cast<char>(inside);
      at_[Place(n)] += static_cast<int64_t>(inside ? index : 0) * stride;
    }
  }
  int64_t count() const { return count_; }
  bool inside(int64_t n) const { return inside_[Place(n)] != 0; }
  int64_t at(int64_t n) const { return at_[Place(n)]; }

 private:
  static std::size_t Place(int64_t n) { return static_cast<std::size_t>(n); }

  int64_t count_;
  std::array<int64_t, kMost> at_;
  std::array<char, kMost> inside_;
};

class TableReader {
 public:
  // kind: what its entries are read as; dimensions: those that are indexed, the last ones.
  TableReader(const ProgramTable& table, Kind kind, int dimensions)
      : table_(&table), first_(4 - dimensions), truth_(kind == Kind::kTruth) {
    extent_ = std::visit([](const auto& view) { return view.extent; }, table);
  }

  int64_t extent(int dimension) const { return extent_[Of(dimension)]; }
  int dimensions() const { return 4 - first_; }

  // indices: as many as are given, of the first dimensions that are indexed. Negative ones count from the end.
  Entry At(const double* indices, int count) const {
    Entry entry{{}, true};
    for (int x = 0; x < count; ++x) {
      const auto limit = static_cast<double>(extent(x));
      const double index = indices[x] < 0 ? indices[x] + limit : indices[x];
      if (!(index >= 0 && index < limit)) return {};
      entry.index[Of(x)] = static_cast<int64_t>(index);
    }
    return entry;
  }
  double Number(const Entry& entry) const {
    if (!entry.inside) return truth_ ? 0 : std::numeric_limits<double>::quiet_NaN();
    const std::array<int64_t, 4>& at = entry.index;
    const double number =
        std::visit([&](const auto& view) { return static_cast<double>(view(at[0], at[1], at[2], at[3])); }, *table_);
    return truth_ ? static_cast<double>(number != 0) : number;
  }
  double Read(const double* indices, int count) const { return Number(At(indices, count)); }

  // Elements between entries that are neighbours along a dimension.
  int64_t stride(int dimension) const {
    return std::visit([&](const auto& view) { return view.stride[Of(dimension)]; }, *table_);
  }
  // What Number is of the entries of a row, each located with all its indices.
  template <class R>
  void ReadRow(const EntryRow& row, R* numbers) const {
    const R outside = truth_ ? R{0} : std::numeric_limits<R>::quiet_NaN();
    std::visit(
        [&](const auto& view) {
          for (int64_t n = 0; n < row.count(); ++n) {
            const R number = row.inside(n) ? As<R>(view.data[row.at(n)]) : outside;
            numbers[n] = truth_ ? static_cast<R>(number != 0) : number;
          }
        },
        *table_);
  }

 private:
  // Which of the four dimensions is the one of those that are indexed.
  std::size_t Of(int dimension) const { return static_cast<std::size_t>(int64_t{first_} + dimension); }

  template <class R, class V>
  static R As(V number) {
    if constexpr (std::is_same_v<V, double>)
      return Narrowed<R>(number);
    else
      return static_cast<R>(number);
  }

  const ProgramTable* table_;
  int first_;
  bool truth_;
  std::array<int64_t, 4> extent_;
};

using TableReaders = std::vector<TableReader>;

// Calls visit(place, index of four dimensions, factor) for the entries that a reading is made of: with the sum of factors times
// entries being what is read. Nothing where it is outside.
template <class Visit>
void ForEachReadEntry(const TableReaders& tables, const Reading& reading, bool dot, const double* indices, int count,
                      const Visit& visit) {
  const TableReader& a = tables[static_cast<std::size_t>(reading.place)];
  Entry entry = a.At(indices, reading.indices);
  if (!entry.inside) return;
  if (!dot) return visit(reading.place, entry.index, 1.0);
  const TableReader& b = tables[static_cast<std::size_t>(reading.other)];
  Entry other = b.At(indices + reading.indices, count - reading.indices);
  if (!other.inside) return;
  for (int64_t x = 0; x < a.extent(a.dimensions() - 1); ++x) {
    entry.index[3] = other.index[3] = x;
    visit(reading.place, entry.index, b.Number(other));
    visit(reading.other, other.index, a.Number(entry));
  }
}

// What an instruction reads: an entry, or the inner product of two rows, NaN where either is outside.
double ReadBy(const Instruction& instruction, const TableReaders& tables, const double* indices);

}  // namespace heed::program

#endif  // HEED_PROGRAM_TABLE_READER_H_
