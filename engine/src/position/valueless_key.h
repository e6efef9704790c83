// The key without a value that a scheme brings.
#ifndef HEED_POSITION_VALUELESS_KEY_H_
#define HEED_POSITION_VALUELESS_KEY_H_

#include <cstdint>

#include "attention/valueless_key.h"
#include "heed/attention.h"
#include "position/scheme_set.h"

namespace heed::position {

// A scheme that brings one says `static double KeyScore(const Attention&, int64_t row, int64_t head, int64_t query)`, and
// KeyTangent of the tangents of its tables in the place of Attention.
template <class Scheme>
concept BringsKey = requires(const Attention& attention) { Scheme::KeyScore(attention, 0, 0, 0); };

template <class T = float>
class KeyOfScheme final : public attention::ValuelessKey {
 public:
  // At most one scheme of a call brings a key. tangents: of a call that has some, else null.
  explicit KeyOfScheme(const Attention& attention, const BiasGradients<T>* tangents = nullptr)
      : attention_(attention), tangents_(tangents) {
    ForEachScheme([&]<class Scheme>() {
      if constexpr (BringsKey<Scheme>)
        if (Scheme::Present(attention)) score_ = &Scheme::KeyScore, tangent_ = &Scheme::template KeyTangent<T>;
    });
  }

  // Itself, or null where no scheme of the call brings a key.
  const attention::ValuelessKey* IfAny() const { return score_ != nullptr ? this : nullptr; }
  double Score(int64_t row, int64_t head, int64_t query) const override { return score_(attention_, row, head, query); }
  double Tangent(int64_t row, int64_t head, int64_t query) const override {
    return tangents_ ? tangent_(*tangents_, row, head, query) : 0.0;
  }

 private:
  const Attention& attention_;
  const BiasGradients<T>* tangents_;
  double (*score_)(const Attention&, int64_t row, int64_t head, int64_t query) = nullptr;
  double (*tangent_)(const BiasGradients<T>&, int64_t row, int64_t head, int64_t query) = nullptr;
};

}  // namespace heed::position

#endif  // HEED_POSITION_VALUELESS_KEY_H_
