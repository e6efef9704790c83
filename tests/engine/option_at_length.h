// A call with one option on one head of n queries and keys, for tests of how memory grows.
#ifndef HEED_TESTS_ENGINE_OPTION_AT_LENGTH_H_
#define HEED_TESTS_ENGINE_OPTION_AT_LENGTH_H_

#include <cstdint>
#include <optional>
#include <random>

#include "reference/random_cases.h"
#include "reference/schemes.h"
#include "reference/trial_setup.h"

namespace heed {

class OptionAtLength {
 public:
  OptionAtLength(const reference::Option& option, int64_t n, int64_t head_dim) {
    case_.shape = {1, 1, 1, n, n, head_dim, head_dim};
    case_.statistics = false;
    option.set(case_, random_);
    if (case_.mask != reference::kNoDense) case_.mask = reference::kDenseOfKeys;
    reference::ForEachScheme([&]<class Scheme>() { Scheme::LimitArrays(case_); });
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
