// The numbers that a scheme trains, as it starts and of a trained model.
#ifndef HEED_LAB_POSITIONS_SCHEME_TABLE_H_
#define HEED_LAB_POSITIONS_SCHEME_TABLE_H_

#include <optional>

#include "lab/positions/positions.h"

namespace heed::lab {

class LanguageModel;

// As the modules of heed/nn start them: learned [steps, width], relative and t5 [width, 2M + 1], shaw [2M + 1, width], where M
// is options.max_distance. The random ones are drawn from options.seed. Throws InvalidArgument for schemes that train nothing.
SchemeTable StartingTable(const PositionsOptions& options);

// Of one layer of a model (of the input for learned). Nothing for schemes that train nothing. Throws InvalidArgument that names
// the layer where there is no such one.
std::optional<SchemeTable> TrainedTable(LanguageModel& model, int64_t layer);

}  // namespace heed::lab

#endif  // HEED_LAB_POSITIONS_SCHEME_TABLE_H_
