// What a refused call says, part by part.
#ifndef HEED_TESTS_NN_REFUSAL_H_
#define HEED_TESTS_NN_REFUSAL_H_

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "heed/error.h"

namespace heed::nn {

// f throws InvalidArgument, and its text has all the parts.
template <class F>
void ExpectRefused(const F& f, const std::vector<std::string>& parts) {
  try {
    f();
    ADD_FAILURE() << "nothing was thrown; expected " << parts[0];
  } catch (const InvalidArgument& error) {
    for (const std::string& part : parts) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << part << " in: " << error.what();
    }
  }
}

// The same for one part.
template <class F>
void ExpectRefused(const F& f, const char* part) {
  ExpectRefused(f, std::vector<std::string>{part});
}

}  // namespace heed::nn

#endif  // HEED_TESTS_NN_REFUSAL_H_
