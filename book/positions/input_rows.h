// The rows of schemes that are added to the input. Internal to book/positions.
#ifndef HEED_BOOK_POSITIONS_INPUT_ROWS_H_
#define HEED_BOOK_POSITIONS_INPUT_ROWS_H_

#include "book/positions/positions.h"

namespace heed::lab {

constexpr double kFourierScale = 1.0;  // suits positions within 0 .. 1

// As the modules start them, drawn from options.seed alone: [steps, width].
SchemeTable LearnedRows(const PositionsOptions& options);
// Of positions 0, 1 / steps, 2 / steps ...
SchemeTable RandomFourierRows(const PositionsOptions& options);

}  // namespace heed::lab

#endif  // HEED_BOOK_POSITIONS_INPUT_ROWS_H_
