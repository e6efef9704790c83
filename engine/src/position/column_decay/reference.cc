#include "position/column_decay/reference.h"

#include <cmath>

#include "reference/case_table.h"
#include "reference/random_cases.h"

namespace heed::reference {
namespace {

using given::keys, given::dropout, given::uniform, given::layout, given::offsets, given::window, given::packed,
    given::positions, given::softcap, given::mask;

constexpr auto decay = [](double rate) { return [rate](Case& c) { c.decay = rate, c.causal = Causal::kBottomRight; }; };

}  // namespace

double ColumnDecayReference::Factor(const Formulas& f, const Pair& pair, int64_t c) {
  return f.attention().column_decay ? std::exp(TableEntry(f.attention().column_decay->rates, c) * f.Offset(pair)) : 1;
}

bool ColumnDecayReference::Draw(Case& c, Random& random) {
  if (!Chance(random, 4) || c.causal == Causal::kNone || c.prefix) return false;
  c.decay = static_cast<double>(Pick(random, {1, 10, 100, 2000})) / 1000.0;
  return true;
}

void ColumnDecayReference::AddCases(CaseTable& table) {
  table.Add("column decay", {2, 3, 3, 150, 150, 16, 24}, decay(0.01));
  table.Add("column decay, long", {1, 2, 1, 130, 2100, 17, 16}, decay(0.02));
  table.Add("column decay, none to speak of", {1, 2, 2, 70, 90, 16, 16}, decay(1e-9));
  table.Add("column decay, fast", {2, 2, 2, 130, 190, 16, 16}, decay(0.4));
  table.Add("column decay, pair by pair", {2, 2, 2, 70, 130, 16, 16}, decay(3.0));
  table.Add("column decay, several chunks", {2, 2, 1, 80, 1100, 16, 16}, decay(0.01), dropout(0.2));
  table.Add("column decay, top-left, grouped", {2, 4, 2, 150, 130, 33, 16}, decay(0.03),
            [](Case& c) { c.causal = Causal::kTopLeft; });
  table.Add("column decay, lengths, uniform", {3, 2, 2, 70, 90, 16, 16}, decay(0.05), keys(LengthKind::kPerQuery), uniform);
  table.Add("column decay, shuffled positions", {2, 2, 2, 70, 90, 16, 16}, decay(0.05), positions(PositionKind::kShuffled));
  table.Add("column decay, real positions", {2, 2, 2, 70, 90, 16, 16}, decay(0.2), positions(PositionKind::kReal));
  table.Add("column decay, packed, window", {4, 2, 2, 70, 90, 16, 16}, decay(0.05), packed, window(30, 12));
  table.Add("column decay, offsets, random strides", {3, 2, 2, 40, 90, 20, 16}, decay(0.02), offsets(1000000, 999990),
            layout(Layout::kRandom));
  table.Add("column decay, soft-cap, mask", {2, 2, 2, 70, 90, 16, 16}, decay(0.1), softcap(2.0), mask(2));
  table.Add("column decay, content", {2, 2, 2, 70, 90, 16, 16}, decay(0.1), [](Case& c) { c.content_distance = 4; });
  table.Add("decoding, column decay", {2, 6, 2, 3, 2100, 16, 16}, decay(0.01));
}

void ColumnDecayReference::AddOptions(std::vector<Option>& options) {
  const auto set = [](Case& c, Random& random) {
    c.decay = static_cast<double>(Pick(random, {1, 10, 100, 2000})) / 1000.0;
    if (c.causal == Causal::kNone) c.causal = Causal::kBottomRight;
  };
  options.push_back({"column decay", "column_decay", set, {.refuses = {"prefix"}}});
}

void ColumnDecayReference::AddCosts(std::vector<Cost>& costs) { costs.push_back({"column decay", decay(0.002)}); }

}  // namespace heed::reference
