// One trainable number a head and clipped offset.
#ifndef HEED_POSITION_RELATIVE_BIAS_SCHEME_H_
#define HEED_POSITION_RELATIVE_BIAS_SCHEME_H_

#include <cstdint>

#include "position/scheme.h"
#include "position/table_checks.h"

namespace heed::position {

template <class T>
class RelativeBiasCall : public SchemeCall<T> {
 public:
  RelativeBiasCall(const CallFacts& call, const BiasGradients<T>& wanted)
      : table_(call.attention.relative_bias->table),
        wanted_(wanted.relative_bias),
        parts_(call, ExtentOf(table_)[1]),
        width_(call.cut.tile + call.cut.panel + attention::kLaneQuantum) {}

  const Table<2>& table() const { return table_; }
  int64_t max_distance() const { return (ExtentOf(table_)[1] - 1) / 2; }
  bool wants_scores() const { return wanted_.present(); }
  void LayParts(core::Arena& arena, const Blocks&) {
    if (wanted_.present()) parts_.Lay(arena);
  }
  int64_t sums() const { return wanted_.extent[0]; }
  void Clear(int64_t head) const { parts_.Clear(head); }
  void Finish(int64_t head) const {
    for (int64_t x = 0; x < wanted_.extent[1]; ++x) wanted_(head, x) = parts_.Sum(head, x);
  }

  // The gradient [2M+1] of a head from one chunk of keys; null where not wanted.
  T* Part(int64_t b, int64_t head, int64_t chunk) const { return wanted_.present() ? parts_.At(b, head, chunk) : nullptr; }
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
  const View<T, 2> wanted_;
  HeadParts<T> parts_;
  int64_t width_;
};

struct RelativeBiasScheme : Scheme {
  static bool Present(const Attention& attention) { return attention.relative_bias.has_value(); }
  static void Check(const Attention& attention, const Shape& shape);
  template <class Options, class Visit>
  static void ForEachArray(Options& attention, const Visit& visit) {
    if (attention.relative_bias) visit("relative_bias", attention.relative_bias->table);
  }
  template <class Gradients, class Visit>
  static void ForEachGradient(const Attention& attention, Gradients& gradients, const Visit& visit) {
    visit("d_relative_bias", gradients.relative_bias, attention.relative_bias ? &attention.relative_bias->table : nullptr);
  }
  template <class T>
  using Call = RelativeBiasCall<T>;
};

}  // namespace heed::position

#endif  // HEED_POSITION_RELATIVE_BIAS_SCHEME_H_
