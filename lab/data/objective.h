// The objectives of a model of tokens.
#ifndef HEED_LAB_DATA_OBJECTIVE_H_
#define HEED_LAB_DATA_OBJECTIVE_H_

#include <string>

namespace heed::lab {

enum class Objective {
  kCausal,  // the next character from those before it
  kMasked,  // the characters behind mask symbols, from both sides
};

// "causal", "masked"; throws InvalidArgument that lists them.
Objective ParseObjective(const std::string& name);
std::string ToString(Objective objective);

}  // namespace heed::lab

#endif  // HEED_LAB_DATA_OBJECTIVE_H_
