#ifndef HEED_TESTS_MUTANTS_FAULT_H_
#define HEED_TESTS_MUTANTS_FAULT_H_

#include <stdlib.h>

#include <bitset>

// The numbers of the faults that the environment chooses, as in HEED_FAULT=3,7; one set a file, so that it is there before the
// file's own constants.
static const std::bitset<1024> heed_chosen_faults = [] {
  std::bitset<1024> chosen;
  const char* text = getenv("HEED_FAULT");
  while (text != nullptr && *text != 0) {
    char* end = nullptr;
    chosen[strtoul(text, &end, 10) % chosen.size()] = true;
    text = *end == ',' ? end + 1 : nullptr;
  }
  return chosen;
}();

#define heed_fault(number) heed_chosen_faults[number]

#endif  // HEED_TESTS_MUTANTS_FAULT_H_
