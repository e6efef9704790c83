// Products whose columns fade with the distance.
#ifndef HEED_POSITION_COLUMN_DECAY_SCHEME_H_
#define HEED_POSITION_COLUMN_DECAY_SCHEME_H_

#include <cstdint>

#include "position/scheme.h"

namespace heed::position {

template <class T>
class ColumnDecayCall : public SchemeCall<T> {
 public:
  // Keys whose factors are made at once.
  static constexpr int64_t kKeys = 64;
  // A panel's queries may fade by so many powers of two among themselves; the factors of the keys that they see are then about
  // as large at most.
  static constexpr double kMostBits = 30;

  ColumnDecayCall(const CallFacts& call, const BiasGradients<T>& wanted);

  bool backward() const { return backward_; }
  int64_t head_dim() const { return head_dim_; }
  // The rates [D padded] in powers of two a position, 0 behind the last column, and the largest of them.
  const double* rates() const { return rates_; }
  double largest() const { return largest_; }
  // Positions fall in cells of so many, and 2^(+-rate x) of the places x of a cell in rows [cell(), D padded].
  int64_t cell() const { return cell_; }
  const T* rises() const { return steps_; }
  const T* falls() const { return steps_ + cell_ * cut_.head_dim; }

  void LayPrepared(core::Arena& arena);
  void Prepare() const;

  struct Scratch {
    double* origin;            // [D padded] whole powers of two that factors leave out
    T *fractions, *wholes;     // [D padded] of the powers of two at a cell's begin
    T *query_cell, *key_cell;  // [D padded] factors there
    T* factors;                // [kKeys, D padded] of keys
    T* keys;                   // [kKeys, D padded] times their factors
    T* query_factors;          // [panel, D padded]
    T* columns;                // [D, panel] the same
    T* queries;                // [D, panel] times their factors
    // Backward.
    T* query_rows;  // [panel, D padded] as `queries`, times scale
    T* d_queries;   // [D, panel] gradient of `queries`
    T* d_keys;      // [kKeys, D padded] gradient of `keys`

    Scratch(core::Arena& arena, const ColumnDecayCall& call);
  };

 private:
  double Rate(int64_t c) const;

  const ColumnDecay& option_;
  const attention::Cut cut_;
  bool backward_;
  int64_t head_dim_, cell_;
  double largest_ = 0;
  double* rates_ = nullptr;
  T* steps_ = nullptr;  // [2, cell_, D padded]
};

struct ColumnDecayScheme : Scheme<ColumnDecayScheme> {
  static bool Present(const Attention& attention) { return attention.column_decay.has_value(); }
  static void Check(const Attention& attention, const Shape& shape);
  template <class Options, class Gradients, class Visit>
  static void ForEachTable(Options& attention, Gradients& /*gradients*/, const Visit& visit) {
    visit("column_decay.rates", attention.column_decay ? &attention.column_decay->rates : nullptr);
  }
  template <class T>
  using Call = ColumnDecayCall<T>;
};

}  // namespace heed::position

#endif  // HEED_POSITION_COLUMN_DECAY_SCHEME_H_
