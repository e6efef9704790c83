// The caches of a model's layers for one row, for step-by-step decoding.
#ifndef HEED_LAYER_CACHES_H_
#define HEED_LAYER_CACHES_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "heed/cache.h"

namespace heed {

// The state of a layer in linear time, whose size does not grow with the steps: the state of each head
// (heed/linear_attention.h), and the last inputs of its short convolution, if any. Not safe for use by two threads at once.
class LinearState {
 public:
  // heads_state, inputs: how many numbers the heads' states and the last inputs have. All are 0 before the first step.
  LinearState(int64_t heads_state, int64_t inputs);

  // Steps so far.
  int64_t length() const { return now_.length; }
  // Forgets the steps from `length` on. It keeps the state before the last call: throws InvalidArgument unless `length` is 0,
  // length() before that call, or length().
  void Truncate(int64_t length);

 private:
  friend class LinearMixer;
  struct Numbers {
    std::vector<float> state, inputs;
    int64_t length = 0;
  };
  // Moves the state to `before_`; the caller writes all numbers of `now_`.
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
  // Forgets the steps from `length` on, in every layer that holds more. Throws InvalidArgument, before anything changes, for a
  // negative length and for one that states no longer hold.
  void Truncate(int64_t length);
};

}  // namespace heed

#endif  // HEED_LAYER_CACHES_H_
