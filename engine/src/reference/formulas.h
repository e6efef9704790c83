// The formulas of heed/attention.h for single pairs of query and key.
#ifndef HEED_REFERENCE_FORMULAS_H_
#define HEED_REFERENCE_FORMULAS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "heed/attention.h"
#include "reference/number.h"

namespace heed::reference {

// What tables hold, as doubles. Table: any Table<Rank>.
template <class Table>
auto TableExtent(const Table& table) {
  return std::visit([](const auto& view) { return view.extent; }, table);
}
template <class Table, class... Index>
double TableEntry(const Table& table, Index... at) {
  return std::visit([&](const auto& view) { return static_cast<double>(view(at...)); }, table);
}

// A query and a key of one head. b counts batch rows, or packed sequences; i and j count tokens of one sequence.
struct Pair {
  int64_t b, h, i, j;
};

// One call, in the indices of Pair. Its numbers have gradients where they are computed on a tape.
class Formulas {
 public:
  Formulas(const Attention& attention, View<const double, 4> q, View<const double, 4> k, View<const double, 4> v,
           Tape* tape = nullptr, const Tangents<double>& tangents = {});

  const Attention& attention() const { return attention_; }
  int64_t batch() const;
  int64_t heads() const { return q_.extent[1]; }
  int64_t kv_heads() const { return k_.extent[1]; }
  int64_t head_dim() const { return q_.extent[3]; }
  int64_t value_dim() const { return v_.extent[3]; }
  int64_t QueryCount(int64_t b) const;
  int64_t KeyCount(int64_t b) const;
  int64_t LongestKeys() const;
  int64_t KvHead(int64_t h) const { return h / (heads() / kv_heads()); }
  double Scale() const;

  // Where the numbers of a token begin, counted in rows of the arrays.
  int64_t QueryRow(int64_t b, int64_t h, int64_t i) const;
  int64_t KeyRow(int64_t b, int64_t h, int64_t j) const;

  // Rows of single tokens: of arrays that have a row a query, or a key, and those of the call.
  using Row = View<const double, 1>;
  Row RowOfQueries(const View<const double, 4>& array, int64_t b, int64_t h, int64_t i) const {
    return RowOf(array, b, h, FirstQuery(b) + i);
  }
  struct Numbers {
    Row values, tangents;
    Tape* tape;
    Array array;
    int64_t first;

    Number operator()(int64_t c) const {
      Number number(values(c), tangents.present() ? tangents(c) : 0);
      number.tape = tape, number.array = array, number.at = first + c;
      return number;
    }
  };
  Numbers Query(int64_t b, int64_t h, int64_t i) const {
    return {RowOfQueries(q_, b, h, i), RowOfQueries(tangents_.q, b, h, i), tape_, kQueries, QueryRow(b, h, i) * head_dim()};
  }
  Numbers Key(int64_t b, int64_t h, int64_t j) const { return OfKey(k_, tangents_.k, kKeys, b, h, j); }
  Numbers Value(int64_t b, int64_t h, int64_t j) const { return OfKey(v_, tangents_.v, kValues, b, h, j); }
  // An entry of a table of the call.
  template <class Table, class... Index>
  Number Entry(const Table& table, Index... index) const {
    return std::visit(
        [&](const auto& view) {
          Number entry(static_cast<double>(view(index...)));
          const auto known = std::ranges::find(tables_, static_cast<const void*>(view.data), &KnownTable::data);
          if (known == tables_.end()) return entry;
          std::size_t dimension = 0;
          ((entry.at = entry.at * view.extent[dimension++] + index), ...);
          entry.tape = tape_, entry.array = kTables + static_cast<int>(known - tables_.begin());
          if (known->tangent) entry.tangent = known->tangent[entry.at], entry.tangent_magnitude = std::abs(entry.tangent);
          return entry;
        },
        table);
  }

  double QueryPosition(const Pair& pair) const;
  double KeyPosition(const Pair& pair) const;
  double Offset(const Pair& pair) const;  // key position - query position
  bool Padded(int64_t b, int64_t i) const;
  bool Visible(const Pair& pair) const;
  bool Uniform(int64_t b, int64_t h, int64_t i) const;
  // The row of a table with 2M+1 = rows, one for each clipped offset.
  int64_t Clipped(int64_t rows, const Pair& pair) const;

  // Its magnitude is the largest before the soft-cap, unless a scheme makes another score of it.
  Number Score(const Pair& pair) const;

  // The score of the key without a value that a row has, if the call brings some.
  std::optional<Number> KeyScore(int64_t b, int64_t h, int64_t i) const;
  // Where a row stands in arrays of numbers of rows: array row and query.
  std::array<int64_t, 2> RowPlace(int64_t b, int64_t i) const { return {packed() ? 0 : b, FirstQuery(b) + i}; }

  bool Kept(const Pair& pair) const;
  double KeptScale() const;

 private:
  bool packed() const { return attention_.packed.present(); }
  int64_t FirstQuery(int64_t b) const { return packed() ? attention_.packed.query_offsets(b) : 0; }
  int64_t FirstKey(int64_t b) const { return packed() ? attention_.packed.key_offsets(b) : 0; }
  Row RowOf(const View<const double, 4>& array, int64_t b, int64_t h, int64_t t) const {
    return {array.data + (packed() ? 0 : b) * array.stride[0] + h * array.stride[1] + t * array.stride[2],
            {array.extent[3]},
            {array.stride[3]}};
  }
  Numbers OfKey(const View<const double, 4>& array, const View<const double, 4>& tangent, Array number, int64_t b, int64_t h,
                int64_t j) const {
    const auto row = [&](const View<const double, 4>& of) { return RowOf(of, b, KvHead(h), FirstKey(b) + j); };
    return {row(array), row(tangent), tape_, number, KeyRow(b, h, j) * array.extent[3]};
  }
  double Position(const Positions& positions, double otherwise, int64_t b, int64_t t) const;

  struct KnownTable {
    const void* data;
    const double* tangent;  // contiguous, or none
  };

  const Attention& attention_;
  View<const double, 4> q_, k_, v_;
  Tape* tape_;
  Tangents<double> tangents_;
  std::vector<KnownTable> tables_;  // those that have gradients; none without a tape
};

}  // namespace heed::reference

#endif  // HEED_REFERENCE_FORMULAS_H_
