// What attention's scheme has learnt in a run of a study, as the run keeps it.
#ifndef HEED_BOOK_COMPANIONS_LEARNT_TABLE_H_
#define HEED_BOOK_COMPANIONS_LEARNT_TABLE_H_

#include <optional>

#include <nlohmann/json.hpp>

#include "book/positions/positions.h"

namespace heed::lab {

class LanguageModel;

// For RunStudy, which keeps it with each run for the page on positions. In the first layer where the scheme acts inside of
// attention; null where it trains nothing.
nlohmann::ordered_json LearntTable(LanguageModel& model);

// The same back. Nothing for null; throws nlohmann::json::exception or InvalidArgument where the JSON holds no table.
std::optional<SchemeTable> LearntTableOf(const nlohmann::ordered_json& json);

}  // namespace heed::lab

#endif  // HEED_BOOK_COMPANIONS_LEARNT_TABLE_H_
