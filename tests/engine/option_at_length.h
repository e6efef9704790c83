// A call with one option on one head of n queries and keys, for tests of how memory grows.
#ifndef HEED_TESTS_ENGINE_OPTION_AT_LENGTH_H_
#define HEED_TESTS_ENGINE_OPTION_AT_LENGTH_H_

#include <cstdint>
#include <optional>
#include <random>

#include "reference/random_cases.h"
#include "reference/trial_setup.h"

namespace heed {

class OptionAtLength {
 public:
  OptionAtLength(const reference::Option& option, int64_t n, int64_t head_dim) {
    case_.shape = {1, 1, 1, n, n, head_dim, head_dim};
    case_.statistics = false;
    option.set(case_, random_);
    // A dense array that tells both queries and keys apart is the caller's own n^2.
    if (case_.mask != reference::kNoDense) case_.mask = 0b0100;
    if (case_.bias != reference::kNoDense) case_.bias = 0b0100;
    if (case_.max_distance >= 0) case_.max_distance = 300;
    if (case_.content_distance >= 0) case_.content_distance = 200;
    setup_.emplace(case_, 1, random_);
  }

  const Shape& shape() const { return case_.shape; }
  const Attention& attention() const { return setup_->attention; }

 private:
  std::mt19937_64 random_{1};
  reference::Case case_;
  std::optional<reference::Setup<float>> setup_;
};

}  // namespace heed

#endif  // HEED_TESTS_ENGINE_OPTION_AT_LENGTH_H_
