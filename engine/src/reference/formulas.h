// The formulas of heed/attention.h for single pairs of query and key.
#ifndef HEED_REFERENCE_FORMULAS_H_
#define HEED_REFERENCE_FORMULAS_H_

#include <array>
#include <cmath>
#include <cstdint>
#include <optional>

#include "heed/attention.h"

namespace heed::reference {

// A query and a key of one head. b counts batch rows, or packed sequences; i and j count tokens of one sequence.
struct Pair {
  int64_t b, h, i, j;
};

// A sum, and that of the absolute values of its terms, which its rounding is measured by.
struct Sum {
  double value = 0, magnitude = 0;

  Sum& operator+=(double term) {
    value += term;
    magnitude += std::abs(term);
    return *this;
  }
};

// One call, in the indices of Pair.
class Formulas {
 public:
  Formulas(const Attention& attention, View<const double, 4> q, View<const double, 4> k, View<const double, 4> v)
      : attention_(attention), q_(q), k_(k), v_(v) {}

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

  // Rows of single tokens, those of keys and values for query head h.
  using Row = View<const double, 1>;
  Row Query(int64_t b, int64_t h, int64_t i) const { return Gradient(q_, b, h, i); }
  Row Key(int64_t b, int64_t h, int64_t j) const { return RowOfKeys(k_, b, h, j); }
  Row Value(int64_t b, int64_t h, int64_t j) const { return RowOfKeys(v_, b, h, j); }
  // Of an array with a row a key, or a query.
  Row RowOfKeys(const View<const double, 4>& array, int64_t b, int64_t h, int64_t j) const {
    return RowOf(array, b, KvHead(h), FirstKey(b) + j);
  }
  Row Gradient(const View<const double, 4>& d_out, int64_t b, int64_t h, int64_t i) const {
    return RowOf(d_out, b, h, FirstQuery(b) + i);
  }

  double QueryPosition(const Pair& pair) const;
  double KeyPosition(const Pair& pair) const;
  double Offset(const Pair& pair) const;  // key position - query position
  bool Padded(int64_t b, int64_t i) const;
  bool Visible(const Pair& pair) const;
  bool Uniform(int64_t b, int64_t h, int64_t i) const;
  // The row of a table with 2M+1 = rows, one for each clipped offset.
  int64_t Clipped(int64_t rows, const Pair& pair) const;

  // scale * (q.k + what schemes add to it), and the whole score, whose magnitude is the largest before the soft-cap.
  double Product(const Pair& pair) const;
  Sum SumOfTerms(const Pair& pair) const;  // before a scheme makes another score of it
  Sum Score(const Pair& pair) const;

  // The score of the key without a value that a row has, if the call brings some.
  std::optional<double> KeyScore(int64_t b, int64_t h, int64_t i) const;
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
  double Position(const Positions& positions, double otherwise, int64_t b, int64_t t) const;

  const Attention& attention_;
  View<const double, 4> q_, k_, v_;
};

}  // namespace heed::reference

#endif  // HEED_REFERENCE_FORMULAS_H_
