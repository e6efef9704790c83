// A bias linear in the distance, with one slope a head.
#ifndef HEED_POSITION_SLOPE_BIAS_SCHEME_H_
#define HEED_POSITION_SLOPE_BIAS_SCHEME_H_

#include <cstdint>

#include "position/scheme.h"
#include "position/table_parts.h"

namespace heed::position {

template <class T>
class SlopeBiasCall : public TableCall<T, 1> {
 public:
  SlopeBiasCall(const CallFacts& call, const BiasGradients<T>& wanted, const BiasGradients<T>& tangents)
      : TableCall<T, 1>({TableParts<T>(call, SharedBy::kBatchInParts,
                                       TableParts<T>::Numbers(call.backward() ? wanted.slopes : View<T, 1>{}), 1)}),
        bias_(*call.attention.slope_bias),
        tangent_(call.backward() ? tangents.slopes : wanted.slopes) {}

  const SlopeBias& bias() const { return bias_; }
  const View<const T, 1>& tangent() const { return tangent_; }  // of the slopes, or absent

 private:
  const SlopeBias& bias_;
  View<const T, 1> tangent_;
};

struct SlopeBiasScheme : Scheme<SlopeBiasScheme> {
  static constexpr bool kPassesTangents = true, kHasTangents = true, kHasGradientTangents = true;
  static constexpr bool kHeadByHead = false;
  static bool Present(const Attention& attention) { return attention.slope_bias.has_value(); }
  static void Check(const Attention& attention, const Shape& shape);
  template <class Options, class Gradients, class Visit>
  static void ForEachTable(Options& attention, Gradients& gradients, const Visit& visit) {
    visit("slope_bias", attention.slope_bias ? &attention.slope_bias->slopes : nullptr, "d_slopes", gradients.slopes);
  }
  template <class T>
  using Call = SlopeBiasCall<T>;
};

}  // namespace heed::position

#endif  // HEED_POSITION_SLOPE_BIAS_SCHEME_H_
