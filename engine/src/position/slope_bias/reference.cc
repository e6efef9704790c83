#include "position/slope_bias/reference.h"

#include <cmath>

#include "reference/case_table.h"
#include "reference/random_cases.h"

namespace heed::reference {
namespace {

using given::causal, given::offsets, given::window, given::positions;

constexpr auto slopes = [](bool symmetric) { return [symmetric](Case& c) { c.slopes = true, c.symmetric = symmetric; }; };

}  // namespace

void SlopeBiasReference::AddToScore(const Formulas& f, const Pair& pair, Number& score) {
  if (!f.attention().slope_bias) return;
  const auto& [slopes, symmetric] = *f.attention().slope_bias;
  const double offset = f.Offset(pair);
  score.Add(f.Entry(slopes, pair.h), symmetric ? -std::abs(offset) : offset);
}

bool SlopeBiasReference::Draw(Case& c, Random& random) {
  if (!Chance(random, 5)) return false;
  slopes(Chance(random, 2))(c);
  return true;
}

void SlopeBiasReference::AddCases(CaseTable& table) {
  table.Add("real positions, slopes, window", {2, 2, 2, 70, 90, 16, 16}, positions(PositionKind::kReal), slopes(true),
            window(10, 5));
  table.Add("slopes", {2, 3, 3, 70, 90, 16, 16}, slopes(true));
  table.Add("slopes, one direction, causal", {2, 4, 2, 70, 90, 16, 16}, slopes(false), causal(Causal::kBottomRight));
  table.Add("few, slopes", {2, 4, 2, 2, 400, 16, 16}, slopes(true), causal(Causal::kBottomRight));
  table.Add("few, real positions, slopes", {2, 2, 2, 3, 90, 16, 16}, positions(PositionKind::kReal), slopes(false));
  table.Add("heads side by side, slopes", {2, 10, 2, 3, 700, 16, 16}, slopes(true), causal(Causal::kBottomRight));
  table.Add("heads side by side, real positions, slopes", {2, 6, 2, 5, 90, 16, 16}, positions(PositionKind::kReal),
            slopes(false));
  table.Add("slopes, offsets", {1, 2, 2, 40, 90, 16, 16}, slopes(true), offsets(1000000, 999990));
}

void SlopeBiasReference::AddOptions(std::vector<Option>& options) {
  options.push_back({"slopes", "slope_bias", [](Case& c, Random&) { slopes(true)(c); }});
  options.push_back({"slopes in one direction", "slope_bias", [](Case& c, Random&) { slopes(false)(c); }});
}

void SlopeBiasReference::AddCosts(std::vector<Cost>& costs) { costs.push_back({"slopes", slopes(true)}); }

}  // namespace heed::reference
