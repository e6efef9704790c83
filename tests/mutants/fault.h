#ifndef HEED_TESTS_MUTANTS_FAULT_H_
#define HEED_TESTS_MUTANTS_FAULT_H_

#include <stdlib.h>

// The number of the fault that the environment chooses, 0 for none; one a file, so that it is there before the file's own
// constants.
static const int heed_chosen_fault = getenv("HEED_FAULT") == nullptr ? 0 : atoi(getenv("HEED_FAULT"));

#define heed_fault(number) (heed_chosen_fault == (number))

#endif  // HEED_TESTS_MUTANTS_FAULT_H_
