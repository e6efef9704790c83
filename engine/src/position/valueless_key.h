// The key without a value that a scheme brings.
#ifndef HEED_POSITION_VALUELESS_KEY_H_
#define HEED_POSITION_VALUELESS_KEY_H_

#include <cstdint>

#include "attention/valueless_key.h"
#include "heed/attention.h"
#include "position/scheme_set.h"

namespace heed::position {

// A scheme that brings one says `static double KeyScore(const Attention&, int64_t row, int64_t head, int64_t query)`.
template <class Scheme>
concept BringsKey = requires(const Attention& attention) { Scheme::KeyScore(attention, 0, 0, 0); };

class KeyOfScheme final : public attention::ValuelessKey {
 public:
  // At most one scheme of a call brings a key.
  explicit KeyOfScheme(const Attention& attention) : attention_(attention) {
    ForEachScheme([&]<class Scheme>() {
      if constexpr (BringsKey<Scheme>)
        if (Scheme::Present(attention)) score_ = &Scheme::KeyScore;
    });
  }

  // Itself, or null where no scheme of the call brings a key.
  const attention::ValuelessKey* IfAny() const { return score_ != nullptr ? this : nullptr; }
  double Score(int64_t row, int64_t head, int64_t query) const override { return score_(attention_, row, head, query); }

 private:
  const Attention& attention_;
  double (*score_)(const Attention&, int64_t row, int64_t head, int64_t query) = nullptr;
};

}  // namespace heed::position

#endif  // HEED_POSITION_VALUELESS_KEY_H_
