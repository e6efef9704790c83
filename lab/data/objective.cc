#include "lab/data/objective.h"

#include "heed/error.h"
#include "heed/safetensors.h"

namespace heed::lab {

Objective ParseObjective(const std::string& name) {
  if (name == "causal") return Objective::kCausal;
  if (name == "masked") return Objective::kMasked;
  throw InvalidArgument("objective: '" + ShownName(name) + "' is unknown; choose causal or masked");
}

std::string ToString(Objective objective) { return objective == Objective::kCausal ? "causal" : "masked"; }

}  // namespace heed::lab
