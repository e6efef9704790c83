// The key without a value that a scheme brings.
#ifndef HEED_POSITION_VALUELESS_KEY_H_
#define HEED_POSITION_VALUELESS_KEY_H_

#include <cstdint>
#include <limits>

#include "attention/valueless_key.h"
#include "heed/attention.h"
#include "position/scheme_set.h"

namespace heed::position {

// A scheme that brings one says `static double KeyScore(const Attention&, int64_t row, int64_t head, int64_t query)`.
template <class Scheme>
concept BringsKey = requires(const Attention& attention) { Scheme::KeyScore(attention, 0, 0, 0); };

class KeyOfScheme final : public attention::ValuelessKey {
 public:
  explicit KeyOfScheme(const Attention& attention) : attention_(attention) {}

  // Itself, or null where no scheme of the call brings a key.
  const attention::ValuelessKey* IfAny() const {
    bool any = false;
    ForEach([&]<class Scheme>() { any = true; });
    return any ? this : nullptr;
  }
  double Score(int64_t row, int64_t head, int64_t query) const override {
    double score = -std::numeric_limits<double>::infinity();
    ForEach([&]<class Scheme>() { score = Scheme::KeyScore(attention_, row, head, query); });
    return score;
  }

 private:
  // Calls visit.template operator()<Scheme>() for those that bring one.
  template <class Visit>
  void ForEach(const Visit& visit) const {
    ForEachScheme([&]<class Scheme>() {
      if constexpr (BringsKey<Scheme>)
        if (Scheme::Present(attention_)) visit.template operator()<Scheme>();
    });
  }

  const Attention& attention_;
};

}  // namespace heed::position

#endif  // HEED_POSITION_VALUELESS_KEY_H_
