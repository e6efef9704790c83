// Checks of what somebody chose, with errors that say what there is to choose.
#ifndef HEED_LAB_RUNS_CHOICE_H_
#define HEED_LAB_RUNS_CHOICE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace heed::lab {

// Throws InvalidArgument that names the option: where nothing is chosen, a name is unknown (it lists those known), or a name is
// given twice.
void RequireKnown(const char* option, const std::vector<std::string>& chosen, const std::vector<std::string>& known);

// Throws InvalidArgument that names the option, the value and the range, both ends of which are allowed.
void RequireRange(const char* option, int64_t value, int64_t low, int64_t high);

}  // namespace heed::lab

#endif  // HEED_LAB_RUNS_CHOICE_H_
