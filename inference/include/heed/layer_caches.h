// What the layers of a model keep of one row's steps so far, for decoding one step after the other.
#ifndef HEED_LAYER_CACHES_H_
#define HEED_LAYER_CACHES_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "heed/cache.h"

namespace heed {

// What a layer in linear time keeps, however many steps there were: the state of each head (heed/linear_attention.h), and the
// last inputs of its short convolution where it has one. Not safe for use by two threads at once.
class LinearState {
 public:
  // heads_state: numbers of the states of all heads; inputs: those of the last inputs. All are 0 before the first step.
  LinearState(int64_t heads_state, int64_t inputs);

  // Steps so far.
  int64_t length() const { return now_.length; }
  // Forgets the steps from `length` on. Of earlier steps it holds those before the last call alone, so that `length` is 0,
  // length() before that call, or length(). Throws InvalidArgument.
  void Truncate(int64_t length);

 private:
  friend class LinearMixer;
  struct Numbers {
    std::vector<float> state, inputs;
    int64_t length = 0;
  };
  // What there is becomes `before_`; the caller writes all numbers of `now_`.
  void Begin(int64_t steps) {
    std::swap(before_, now_);
    now_.length = before_.length + steps;
  }

  Numbers now_, before_;
};

// Keys and values, or a state, of each layer.
struct LayerCaches {
  std::vector<KeyValueCache<float>> keys;  // of attention; else empty
  std::vector<LinearState> states;         // of encoders in linear time; else empty

  // Steps in every layer.
  int64_t length() const;
  // Forgets the steps from `length` on, in every layer that holds more. Throws InvalidArgument for a negative length, and where
  // states no longer hold it; nothing has changed then.
  void Truncate(int64_t length);
};

}  // namespace heed

#endif  // HEED_LAYER_CACHES_H_
