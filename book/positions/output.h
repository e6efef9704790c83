// The positional encoding as text, as JSON and as a page.
#ifndef HEED_BOOK_POSITIONS_OUTPUT_H_
#define HEED_BOOK_POSITIONS_OUTPUT_H_

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "book/positions/positions.h"
#include "lab/report/page.h"

namespace heed::lab {

struct PositionsResult {
  PositionsOptions options;
  std::vector<Figure> figures;
  std::optional<RotationCheck> check;  // where one was asked for
};

// The largest errors beside their bounds, and what the check left out (empty: nothing).
Table CheckTable(const RotationCheck& check);
nlohmann::ordered_json RotationJson(const RotationCheck& check);
std::string CheckNote(const RotationCheck& check);

// Scheme, paragraph, sizes, the numbers in binary beside sinusoidal, check; with a folder, where the page and each figure's
// files are in it.
nlohmann::ordered_json PositionsJson(const PositionsResult& result, const std::filesystem::path& folder);

// Figures, the binary analogy beside sinusoidal, the check: a page, whose path it returns. FileError.
std::filesystem::path WritePositions(const PositionsResult& result, const std::filesystem::path& folder);

}  // namespace heed::lab

#endif  // HEED_BOOK_POSITIONS_OUTPUT_H_
