// One case against the double reference, with a failure that says how to see it again.
#ifndef HEED_TESTS_ENGINE_ACCURACY_H_
#define HEED_TESTS_ENGINE_ACCURACY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "heed/attention.h"
#include "heed/executor.h"
#include "reference/cases.h"
#include "reference/trial.h"

namespace heed {

// On these SIMD targets, or on the one in use where none is named.
template <class T>
void ExpectAccurate(const reference::Case& c, uint64_t seed, const char* type, const std::vector<std::string>& targets = {}) {
  SerialExecutor serial;
  std::vector<reference::TrialErrors> errors;
  if (targets.empty()) {
    errors.push_back(reference::RunTrial<T>(c, seed, serial));
  } else {
    errors = reference::RunTrials<T>(c, seed, serial, targets);
    UseTarget("");
  }
  for (std::size_t t = 0; t < errors.size(); ++t)
    EXPECT_LT(errors[t].Largest(), reference::kErrorLimit<T>)
        << type << " " << (targets.empty() ? "" : targets[t]) << ": " << errors[t].Text() << "\nagain: heed check --case \""
        << c.name << "\" --seed " << seed;
}

inline void ExpectAccurateInEveryType(const reference::Case& c, uint64_t seed, const std::vector<std::string>& targets = {}) {
  ExpectAccurate<float>(c, seed, "float32", targets);
  ExpectAccurate<double>(c, seed, "float64", targets);
  ExpectAccurate<BFloat16>(c, seed, "bfloat16", targets);
  ExpectAccurate<Float16>(c, seed, "float16", targets);
}

}  // namespace heed

#endif  // HEED_TESTS_ENGINE_ACCURACY_H_
