#include "lab/runs/measure.h"

#include <fmt/core.h>

namespace heed::lab {

std::string Measure::Text(double value) const {
  return significant ? fmt::format("{:.{}g}", value / unit, digits) : fmt::format("{:.{}f}", value / unit, digits);
}

std::string Measure::Text(const Spread& spread) const {
  const std::string low = Text(spread.low), high = Text(spread.high);
  return low == high ? Text(spread.mean) : fmt::format("{} ({} to {})", Text(spread.mean), low, high);
}

std::string Measure::Cell(const Spread& spread) const {
  const std::string low = Text(spread.low), high = Text(spread.high);
  return low == high ? Text(spread.mean) : fmt::format("{} ({}–{})", Text(spread.mean), low, high);
}

std::string Measure::Phrase(const Spread& spread) const { return fmt::format(fmt::runtime(phrase), Text(spread)); }

}  // namespace heed::lab
