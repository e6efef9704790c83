// The numbers of a scheme that figures draw, as it starts and in a trained model.
#ifndef HEED_BOOK_POSITIONS_SCHEME_TABLE_H_
#define HEED_BOOK_POSITIONS_SCHEME_TABLE_H_

#include <optional>

#include "book/positions/positions.h"

namespace heed::lab {

class LanguageModel;

// As the modules of heed/nn start them, drawn from options.seed alone; see SchemeTable for the shapes. Throws InvalidArgument
// for schemes whose options alone say all.
SchemeTable StartingTable(const PositionsOptions& options);

// Of one layer of a model (of the input for learned). Nothing for schemes that train nothing. Throws InvalidArgument that names
// the layer where there is no such one.
std::optional<SchemeTable> TrainedTable(LanguageModel& model, int64_t layer);

}  // namespace heed::lab

#endif  // HEED_BOOK_POSITIONS_SCHEME_TABLE_H_
