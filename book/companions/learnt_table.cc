#include "book/companions/learnt_table.h"

#include <cstdint>
#include <string>
#include <vector>

#include "book/positions/scheme_table.h"
#include "heed/error.h"
#include "lab/training/language_model.h"

namespace heed::lab {

nlohmann::ordered_json LearntTable(LanguageModel& model) {
  const std::optional<SchemeTable> table = TrainedTable(model, 0);
  if (!table) return nullptr;
  return {{"scheme", table->scheme}, {"rows", table->rows}, {"columns", table->columns}, {"values", table->values}};
}

std::optional<SchemeTable> LearntTableOf(const nlohmann::ordered_json& json) {
  if (json.is_null()) return std::nullopt;
  SchemeTable table{json.at("scheme").get<std::string>(), json.at("rows").get<int64_t>(), json.at("columns").get<int64_t>(),
                    json.at("values").get<std::vector<double>>(), /*trained=*/true};
  const auto size = static_cast<int64_t>(table.values.size());
  if (table.rows < 1 || table.columns < 1 || size % table.rows != 0 || size / table.rows != table.columns) {
    throw InvalidArgument("table: incomplete");
  }
  return table;
}

}  // namespace heed::lab
