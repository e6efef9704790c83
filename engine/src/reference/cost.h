// What option_cost_bench times of a positional scheme.
#ifndef HEED_REFERENCE_COST_H_
#define HEED_REFERENCE_COST_H_

#include <functional>
#include <string>

#include "reference/cases.h"

namespace heed::reference {

// A row beside the plain call: what a case of the plain call's shape asks for.
struct Cost {
  std::string name;
  std::function<void(Case&)> set;
};

}  // namespace heed::reference

#endif  // HEED_REFERENCE_COST_H_
