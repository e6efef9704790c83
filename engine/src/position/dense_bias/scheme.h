// A bias that the caller holds as an array, of any broadcast shape, with its gradient reduced to that shape.
#ifndef HEED_POSITION_DENSE_BIAS_SCHEME_H_
#define HEED_POSITION_DENSE_BIAS_SCHEME_H_

#include <array>
#include <cstdint>
#include <variant>

#include "position/scheme.h"

namespace heed::position {

template <class T>
class DenseBiasCall : public SchemeCall<T> {
 public:
  DenseBiasCall(const CallFacts& call, const BiasGradients<T>& wanted, const BiasGradients<T>& tangents);

  const BiasValues& bias() const { return bias_; }
  const View<const T, 4>& tangent() const { return tangent_; }  // or absent
  bool wants_scores() const { return wanted_.present(); }
  void ShareIn(Blocks& blocks) const;
  void LayParts(core::Arena& arena, const Blocks& blocks);
  int64_t sums() const { return wanted_.extent[0] * wanted_.extent[1]; }
  void Clear(int64_t sum) const;
  void Finish(int64_t sum) const;

  // Where a block adds its gradient, in the bias's extents with strides of its own (0 where the extent is 1); without data
  // where not wanted. Pairs that share an entry are added in the order of the tiles.
  View<T, 4> Part(int64_t block, int64_t chunk) const;

  struct Scratch {
    T* tile;  // [tile, panel] the bias of a tile, then its gradient
    T* wide;  // [panel, tile] elements of 16 bits, widened

    Scratch(core::Arena& arena, const DenseBiasCall& call)
        : tile(arena.Take<T>(call.cut_.tile, call.cut_.panel)),
          wide(arena.Take<T>(call.narrow() ? call.cut_.panel * call.cut_.tile : 0)) {}
  };

 private:
  bool narrow() const { return bias_.index() > 1; }
  // Whether the bias tells both queries and keys apart, so that its gradient is too large for a part a task.
  bool by_copy() const { return wanted_.extent[2] != 1 && wanted_.extent[3] != 1; }
  bool in_place() const { return by_copy() && copies_ == 1; }
  int64_t part_length() const;
  T SumOf(int64_t b, int64_t h, int64_t i, int64_t j) const;
  void SumRow(const T* row, T* total) const;  // the same for a row of copies without gaps

  const BiasValues& bias_;
  const Shape shape_;
  const attention::Cut cut_;
  const View<T, 4> wanted_;
  const View<const T, 4> tangent_;
  int64_t copies_ = 1;
  // Of copies [copies, the bias's extents], else a part for each batch row and query head [B, Hq, chunks, the longer extent],
  // where keys that are told apart need no part a chunk.
  View<T, 4> parts_;
  int64_t copy_stride_ = 0, chunk_stride_ = 0;
};

struct DenseBiasScheme : Scheme<DenseBiasScheme> {
  static constexpr bool kPassesTangents = true, kHasTangents = true, kHasGradientTangents = true;
  static constexpr bool kHeadByHead = false;
  static bool Present(const Attention& attention) { return attention.bias.has_value(); }
  static void Check(const Attention& attention, const Shape& shape);
  static bool Hides(const Attention& attention) { return Present(attention); }
  struct Sight {
    const Bias& bias;

    Sight(const Attention& attention, const Shape&) : bias(*attention.bias) {}
    bool Hidden(int64_t b, int64_t h, int64_t i, int64_t j) const;
  };
  template <class Options, class Gradients, class Visit>
  static void ForEachTable(Options& attention, Gradients& gradients, const Visit& visit) {
    visit("bias", attention.bias ? &attention.bias->values : nullptr, "d_bias", gradients.bias);
  }
  template <class T>
  using Call = DenseBiasCall<T>;
};

}  // namespace heed::position

#endif  // HEED_POSITION_DENSE_BIAS_SCHEME_H_
