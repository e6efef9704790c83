// The numbers that a scheme draws, as it starts and of a trained model, and whether its identities hold of either.
#ifndef HEED_LAB_POSITIONS_SCHEME_TABLE_H_
#define HEED_LAB_POSITIONS_SCHEME_TABLE_H_

#include <memory>
#include <optional>

#include "heed/nn/attention_position.h"
#include "lab/positions/positions.h"

namespace heed::lab {

class LanguageModel;

// As the modules of heed/nn start them, drawn from options.seed alone; see SchemeTable for the shapes. Throws InvalidArgument
// for schemes whose options alone say all.
SchemeTable StartingTable(const PositionsOptions& options);

// Of one layer of a model: its scheme inside attention, null for those on the input and for none. Throws InvalidArgument that
// names the layer where there is no such one.
std::shared_ptr<const nn::AttentionPosition> TrainedScheme(LanguageModel& model, int64_t layer);

// The table of that layer (of the input for learned). Nothing for schemes that train nothing.
std::optional<SchemeTable> TrainedTable(LanguageModel& model, int64_t layer);

// Tries what belongs to the scheme, of a new one with random parameters from options.seed, or of what a training made of it.
// Throws InvalidArgument that names the option.
PositionsCheck CheckPositions(const PositionsOptions& options, const std::optional<SchemeTable>& table = std::nullopt,
                              const std::shared_ptr<const nn::AttentionPosition>& trained = nullptr);

}  // namespace heed::lab

#endif  // HEED_LAB_POSITIONS_SCHEME_TABLE_H_
