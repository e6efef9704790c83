// The table that figures and checks look at, as the engine emits it. Internal to book/positions.
#ifndef HEED_BOOK_POSITIONS_TABLE_H_
#define HEED_BOOK_POSITIONS_TABLE_H_

#include <vector>

#include "book/positions/positions.h"

namespace heed::lab {

// Row-major [steps, width], positions from 0.
std::vector<float> EmittedSinusoidal(const PositionsOptions& options);

// The same of rotary's sines and cosines, in turn; the width is even.
std::vector<float> EmittedRotary(const PositionsOptions& options);

}  // namespace heed::lab

#endif  // HEED_BOOK_POSITIONS_TABLE_H_
