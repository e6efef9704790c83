// A score a row without a value. The softmax of a panel takes it in behind all keys, and its gradient is a sum over rows: no
// tile knows of it.
#ifndef HEED_POSITION_SINKS_SCHEME_H_
#define HEED_POSITION_SINKS_SCHEME_H_

#include <cstdint>

#include "position/scheme.h"

namespace heed::position {

template <class T>
class SinksCall : public SchemeCall<T> {
 public:
  static constexpr bool kMeetsTiles = false;
  SinksCall(const CallFacts& call, const BiasGradients<T>& wanted)
      : sinks_(*call.attention.sinks), d_sinks_(call.backward() ? wanted.sinks : View<T, 3>{}), heads_(call.shape.q_heads) {}

  // One a head, in double, in the order of its rows.
  int64_t key_sums() const { return d_sinks_.present() ? heads_ : 0; }
  void SumKey(const attention::ValuelessKeyGradients& gradients, int64_t head) const;

 private:
  const Sinks& sinks_;
  View<T, 3> d_sinks_;
  int64_t heads_;
};

struct SinksScheme : Scheme<SinksScheme> {
  static constexpr bool kPassesTangents = true, kHasTangents = true;
  static bool Present(const Attention& attention) { return attention.sinks.has_value(); }
  static void Check(const Attention& attention, const Shape& shape);
  static double KeyScore(const Attention& attention, int64_t row, int64_t head, int64_t query);
  template <class T>
  static double KeyTangent(const BiasGradients<T>& tangents, int64_t row, int64_t head, int64_t query);
  template <class Options, class Gradients, class Visit>
  static void ForEachTable(Options& attention, Gradients& gradients, const Visit& visit) {
    visit("sinks", attention.sinks ? &attention.sinks->scores : nullptr, "d_sinks", gradients.sinks);
  }
  template <class T>
  using Call = SinksCall<T>;
};

}  // namespace heed::position

#endif  // HEED_POSITION_SINKS_SCHEME_H_
