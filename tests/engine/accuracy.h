// One case against the double reference, with a failure that says how to see it again.
#ifndef HEED_TESTS_ENGINE_ACCURACY_H_
#define HEED_TESTS_ENGINE_ACCURACY_H_

#include <cstdint>

#include <gtest/gtest.h>

#include "heed/executor.h"
#include "reference/cases.h"
#include "reference/trial.h"

namespace heed {

template <class T>
void ExpectAccurate(const reference::Case& c, uint64_t seed, const char* type) {
  SerialExecutor serial;
  const reference::TrialErrors errors = reference::RunTrial<T>(c, seed, serial);
  EXPECT_LT(errors.Largest(), reference::kErrorLimit<T>)
      << type << ": " << errors.Text() << "\nagain: heed check --case \"" << c.name << "\" --seed " << seed;
}

inline void ExpectAccurateInEveryType(const reference::Case& c, uint64_t seed) {
  ExpectAccurate<float>(c, seed, "float32");
  ExpectAccurate<double>(c, seed, "float64");
  ExpectAccurate<BFloat16>(c, seed, "bfloat16");
  ExpectAccurate<Float16>(c, seed, "float16");
}

}  // namespace heed

#endif  // HEED_TESTS_ENGINE_ACCURACY_H_
