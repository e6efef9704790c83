// Vectors by clipped offset, with tables of their own for every head.
#ifndef HEED_POSITION_TRANSFORMER_XL_SCHEME_H_
#define HEED_POSITION_TRANSFORMER_XL_SCHEME_H_

#include <cstdint>
#include <optional>

#include "position/scheme.h"
#include "position/table_parts.h"

namespace heed::position {

template <class T>
class TransformerXlCall : public TableCall<T, 2> {
 public:
  // The tables whose gradients are gathered: [2M+1, D padded] and [D] of a head.
  static constexpr std::size_t kPositions = 0, kBias = 1;

  TransformerXlCall(const CallFacts& call, const BiasGradients<T>& wanted);

  bool backward() const { return backward_; }
  int64_t rows() const { return extent_[1]; }
  // The table of a head, and what its bias makes of each row, times scale * log2(e) as scores are; null without a bias.
  View<const T, 2> Table(int64_t head) const;
  const T* Constants(int64_t head) const { return constants_ ? constants_ + head * rows() : nullptr; }
  const std::optional<heed::Table<2>>& bias() const { return option_.bias; }

  void LayPrepared(core::Arena& arena);
  void Prepare() const;

  struct Scratch {
    T* products;    // [2M+1, panel] of queries and the table
    T* other;       // [2M+1, panel] those of another head's table, where heads share a panel
    T* d_products;  // [2M+1, panel] backward: their gradient

    Scratch(core::Arena& arena, const TransformerXlCall& call)
        : products(arena.Take<T>(call.rows(), call.cut_.panel)),
          other(arena.Take<T>(call.cut_.group > 1 ? call.rows() : 0, call.cut_.panel)),
          d_products(arena.Take<T>(call.backward_ ? call.rows() : 0, call.cut_.panel)) {}
  };

 private:
  const TransformerXl& option_;
  const attention::Cut cut_;
  bool backward_;
  std::array<int64_t, 3> extent_;
  double scale_;
  View<const T, 3> positions_;  // the caller's own, or a copy
  T *copy_ = nullptr, *constants_ = nullptr;
};

struct TransformerXlScheme : Scheme<TransformerXlScheme> {
  static bool Present(const Attention& attention) { return attention.transformer_xl.has_value(); }
  static void Check(const Attention& attention, const Shape& shape);
  template <class Options, class Gradients, class Visit>
  static void ForEachTable(Options& attention, Gradients& gradients, const Visit& visit) {
    auto& option = attention.transformer_xl;
    visit("transformer_xl.positions", option ? &option->positions : nullptr, "d_transformer_xl_positions",
          gradients.transformer_xl_positions);
    visit("transformer_xl.bias", option && option->bias ? &*option->bias : nullptr, "d_transformer_xl_bias",
          gradients.transformer_xl_bias);
  }
  template <class T>
  using Call = TransformerXlCall<T>;
};

}  // namespace heed::position

#endif  // HEED_POSITION_TRANSFORMER_XL_SCHEME_H_
