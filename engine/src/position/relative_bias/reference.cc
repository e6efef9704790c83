#include "position/relative_bias/reference.h"

#include "reference/case_table.h"
#include "reference/random_cases.h"

namespace heed::reference {
namespace {

using given::causal, given::keys, given::dropout, given::uniform, given::layout, given::offsets, given::window, given::packed,
    given::positions;

constexpr auto bias = [](int64_t distance) { return [distance](Case& c) { c.max_distance = distance; }; };

int64_t RandomDistance(Random& random) { return Pick(random, {0, 1, 5, 64, 300}); }

}  // namespace

void RelativeBiasReference::AddToScore(const Formulas& f, const Pair& pair, Number& score) {
  if (!f.attention().relative_bias) return;
  const Table<2>& table = f.attention().relative_bias->table;
  score.Add(f.Entry(table, pair.h, f.Clipped(TableExtent(table)[1], pair)));
}

bool RelativeBiasReference::Draw(Case& c, Random& random) {
  if (!Chance(random, 3) || c.positions == PositionKind::kReal) return false;
  c.max_distance = RandomDistance(random);
  return true;
}

void RelativeBiasReference::AddCases(CaseTable& table) {
  table.Add("relative bias", {2, 3, 3, 70, 90, 16, 16}, bias(200));
  table.Add("relative bias, clipped", {2, 2, 2, 130, 90, 16, 16}, bias(7));
  table.Add("relative bias, distance 0", {1, 2, 2, 33, 40, 16, 16}, bias(0));
  table.Add("relative bias, causal, grouped", {2, 4, 2, 90, 90, 16, 16}, bias(30), causal(Causal::kBottomRight));
  table.Add("relative bias, lengths, uniform", {3, 2, 2, 70, 90, 16, 16}, bias(20), keys(LengthKind::kPerQuery), uniform);
  table.Add("few, relative bias, clipped", {2, 2, 2, 3, 400, 16, 16}, bias(40), causal(Causal::kBottomRight));
  table.Add("few, relative bias behind the keys", {2, 2, 2, 2, 90, 16, 16}, bias(5), offsets(200, 0));
  table.Add("few, shuffled positions, relative bias", {2, 4, 2, 2, 90, 16, 16}, positions(PositionKind::kShuffled), bias(12));
  table.Add("heads side by side, relative bias", {2, 10, 2, 3, 700, 16, 16}, bias(40), causal(Causal::kBottomRight));
  table.Add("relative bias, offsets", {1, 2, 2, 40, 90, 16, 16}, bias(20), offsets(1000000, 999990));
  table.Add("relative bias, several chunks", {1, 1, 1, 80, 1100, 16, 16}, bias(2000));
  table.Add("dropout, causal, bias", {2, 2, 2, 70, 90, 16, 16}, dropout(0.3), causal(Causal::kBottomRight), bias(12));
  table.Add("packed, relative bias, window", {3, 2, 2, 100, 100, 16, 16}, packed, bias(15), window(40, 10));
  table.Add("shuffled positions, relative bias", {2, 2, 2, 70, 90, 16, 16}, positions(PositionKind::kShuffled), bias(12));
  table.Add("decoding, lengths, bias", {3, 8, 2, 2, 2100, 16, 16}, keys(LengthKind::kPerBatch), bias(40));
  table.Add("spread elements", {2, 2, 2, 70, 90, 24, 20}, layout(Layout::kSpread), bias(5));
}

void RelativeBiasReference::AddOptions(std::vector<Option>& options) {
  options.push_back({"relative bias",
                     "relative_bias",
                     [](Case& c, Random& random) { c.max_distance = RandomDistance(random); },
                     {.refuses = {"real positions"}}});
}

void RelativeBiasReference::AddCosts(std::vector<Cost>& costs) {
  costs.push_back({"relative bias", [](Case& c) { c.max_distance = c.shape.q_len - 1; }});
}

}  // namespace heed::reference
