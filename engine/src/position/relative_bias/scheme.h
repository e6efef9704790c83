// One trainable number a head and clipped offset.
#ifndef HEED_POSITION_RELATIVE_BIAS_SCHEME_H_
#define HEED_POSITION_RELATIVE_BIAS_SCHEME_H_

#include <cstdint>

#include "position/scheme.h"
#include "position/table_parts.h"

namespace heed::position {

template <class T>
class RelativeBiasCall : public TableCall<T, 1> {
 public:
  RelativeBiasCall(const CallFacts& call, const BiasGradients<T>& wanted, const BiasGradients<T>& tangents)
      : TableCall<T, 1>({TableParts<T>(call, SharedBy::kBatchInParts,
                                       TableParts<T>::Rows(call.backward() ? wanted.relative_bias : View<T, 2>{}),
                                       wanted.relative_bias.extent[1])}),
        table_(call.attention.relative_bias->table),
        tangent_(call.backward() ? tangents.relative_bias : wanted.relative_bias),
        width_(call.cut.tile + call.cut.panel + attention::kLaneQuantum) {}

  const Table<2>& table() const { return table_; }
  const View<const T, 2>& tangent() const { return tangent_; }  // or absent
  int64_t max_distance() const { return (ExtentOf(table_)[1] - 1) / 2; }
  // Room for the diagonals of a tile.
  int64_t diagonals() const { return width_; }

  struct Scratch {
    T* diagonals;
    T* d_diagonals;  // [kLaneQuantum, diagonals] copies of their gradient

    Scratch(core::Arena& arena, const RelativeBiasCall& call)
        : diagonals(arena.Take<T>(call.diagonals())),
          d_diagonals(arena.Take<T>(call.wants_scores() ? attention::kLaneQuantum * call.diagonals() : 0)) {}
  };

 private:
  const Table<2>& table_;
  View<const T, 2> tangent_;
  int64_t width_;
};

struct RelativeBiasScheme : Scheme<RelativeBiasScheme> {
  static constexpr bool kPassesTangents = true, kHasTangents = true, kHasGradientTangents = true;
  static bool Present(const Attention& attention) { return attention.relative_bias.has_value(); }
  static void Check(const Attention& attention, const Shape& shape);
  template <class Options, class Gradients, class Visit>
  static void ForEachTable(Options& attention, Gradients& gradients, const Visit& visit) {
    visit("relative_bias", attention.relative_bias ? &attention.relative_bias->table : nullptr, "d_relative_bias",
          gradients.relative_bias);
  }
  template <class T>
  using Call = RelativeBiasCall<T>;
};

}  // namespace heed::position

#endif  // HEED_POSITION_RELATIVE_BIAS_SCHEME_H_
