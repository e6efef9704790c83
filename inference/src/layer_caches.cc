#include "heed/layer_caches.h"

#include <algorithm>
#include <string>

#include "heed/error.h"

namespace heed {

LinearState::LinearState(int64_t heads_state, int64_t inputs) {
  if (heads_state < 0 || inputs < 0)
    throw InvalidArgument("LinearState: expected sizes of 0 or more, got " + std::to_string(heads_state) + " and " +
                          std::to_string(inputs));
  now_.state.resize(static_cast<std::size_t>(heads_state)), now_.inputs.resize(static_cast<std::size_t>(inputs));
  before_ = now_;
}

void LinearState::Truncate(int64_t length) {
  if (length == now_.length) return;
  if (length == 0) {
    std::ranges::fill(now_.state, 0.0f), std::ranges::fill(now_.inputs, 0.0f);
    now_.length = 0;
  } else if (length == before_.length) {
    std::swap(now_, before_);
  } else {
    throw InvalidArgument("LinearState: length: expected 0, " + std::to_string(before_.length) + " or " +
                          std::to_string(now_.length) + ", because a state holds no earlier steps, got " +
                          std::to_string(length));
  }
  before_.length = now_.length;  // what stands there is no longer before it
}

int64_t LayerCaches::length() const {
  if (!states.empty()) return states.front().length();
  return keys.empty() ? 0 : keys.front().length();
}

void LayerCaches::Truncate(int64_t length) {
  for (LinearState& state : states) state.Truncate(std::min(state.length(), length));
  for (KeyValueCache<float>& cache : keys) cache.Truncate(std::min(cache.length(), length));
}

}  // namespace heed
