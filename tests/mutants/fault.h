#ifndef HEED_TESTS_MUTANTS_FAULT_H_
#define HEED_TESTS_MUTANTS_FAULT_H_

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

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

// Where HEED_FAULT_REACHED names a file of 1024 bytes: that file in memory. Whoever comes to fault 7's place sets its byte 7,
// so that a test's own process and all that it starts tell together which faults the test can see.
static unsigned char* const heed_reached_faults = []() -> unsigned char* {
  const char* name = getenv("HEED_FAULT_REACHED");
  const int file = name == nullptr ? -1 : open(name, O_RDWR | O_CLOEXEC);
  void* bytes = file < 0 ? MAP_FAILED : mmap(nullptr, 1024, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return bytes == MAP_FAILED ? nullptr : static_cast<unsigned char*>(bytes);
}();

static inline bool heed_fault(int number) {
  if (heed_reached_faults != nullptr) heed_reached_faults[number] = 1;
  return heed_chosen_faults[number];
}

#endif  // HEED_TESTS_MUTANTS_FAULT_H_
