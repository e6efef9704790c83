// Ctrl-C as a question that long work asks between steps, instead of a sudden end.
#ifndef HEED_LAB_TRAINING_INTERRUPT_H_
#define HEED_LAB_TRAINING_INTERRUPT_H_

#include <stdexcept>

#include "heed/error.h"

namespace heed::lab {

// From now on SIGINT and SIGTERM set a flag; a second one ends the process at once. To be called when all input has been read:
// a process that waits for a terminal or a FIFO asks nothing, and the first signal is then to end it.
void WatchForInterrupt();
bool Interrupted();

// Thrown once the work done so far is safe on disk; the program ends with exit code 130.
class Interruption : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The end of a training whose numbers are no longer finite. what() says which number it was and where; nothing that was
// measured on such a model is a result.
class Divergence : public Error {
 public:
  using Error::Error;
};

}  // namespace heed::lab

#endif  // HEED_LAB_TRAINING_INTERRUPT_H_
