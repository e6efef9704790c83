// A bias linear in the distance, with one slope a head.
#ifndef HEED_POSITION_SLOPE_BIAS_SCHEME_H_
#define HEED_POSITION_SLOPE_BIAS_SCHEME_H_

#include <cstdint>

#include "position/scheme.h"

namespace heed::position {

template <class T>
class SlopeBiasCall : public SchemeCall<T> {
 public:
  SlopeBiasCall(const CallFacts& call, const BiasGradients<T>& wanted)
      : bias_(*call.attention.slope_bias), wanted_(wanted.slopes), parts_(call, 1) {}

  const SlopeBias& bias() const { return bias_; }
  bool wants_scores() const { return wanted_.present(); }
  void LayParts(core::Arena& arena, const Blocks&) {
    if (wanted_.present()) parts_.Lay(arena);
  }
  int64_t sums() const { return wanted_.extent[0]; }
  void Clear(int64_t head) const { parts_.Clear(head); }
  void Finish(int64_t head) const { wanted_(head) = parts_.Sum(head, 0); }

  // The gradient of a head's slope from one chunk of keys; null where not wanted.
  T* Part(int64_t b, int64_t head, int64_t chunk) const { return wanted_.present() ? parts_.At(b, head, chunk) : nullptr; }

 private:
  const SlopeBias& bias_;
  const View<T, 1> wanted_;
  HeadParts<T> parts_;
};

struct SlopeBiasScheme : Scheme {
  static constexpr bool kHeadByHead = false;
  static bool Present(const Attention& attention) { return attention.slope_bias.has_value(); }
  static void Check(const Attention& attention, const Shape& shape);
  template <class Options, class Visit>
  static void ForEachArray(Options& attention, const Visit& visit) {
    if (attention.slope_bias) visit("slope_bias", attention.slope_bias->slopes);
  }
  template <class Gradients, class Visit>
  static void ForEachGradient(const Attention& attention, Gradients& gradients, const Visit& visit) {
    visit("d_slopes", gradients.slopes, attention.slope_bias ? &attention.slope_bias->slopes : nullptr);
  }
  template <class T>
  using Call = SlopeBiasCall<T>;
};

}  // namespace heed::position

#endif  // HEED_POSITION_SLOPE_BIAS_SCHEME_H_
