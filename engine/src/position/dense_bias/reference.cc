#include "position/dense_bias/reference.h"

#include <limits>

#include "reference/case_table.h"
#include "reference/random_cases.h"

namespace heed::reference {
namespace {

using given::causal, given::dropout, given::mask, given::queries, given::spoiled, given::uniform;

constexpr auto dense_bias = [](int ones) { return [ones](Case& c) { c.bias = ones; }; };
constexpr auto hiding = [](Case& c) { c.hiding_bias = true; };
constexpr auto narrow = [](Case& c) { c.narrow_bias = true; };

Number EntryFor(const Formulas& f, const Pair& pair) {
  const auto& values = f.attention().bias->values;
  const auto [b, h, i, j] = DenseIndex(TableExtent(values), pair);
  return f.Entry(values, b, h, i, j);
}

}  // namespace

bool DenseBiasReference::Hides(const Formulas& f, const Pair& pair) {
  return f.attention().bias && EntryFor(f, pair).value == -std::numeric_limits<double>::infinity();
}

void DenseBiasReference::AddToScore(const Formulas& f, const Pair& pair, Number& score) {
  if (f.attention().bias) score.Add(EntryFor(f, pair));
}

bool DenseBiasReference::Draw(Case& c, Random& random) {
  if (!Chance(random, 5)) return false;
  c.bias = RandomOnes(random);
  c.hiding_bias = Chance(random, 2);
  c.narrow_bias = Chance(random, 3);
  return true;
}

void DenseBiasReference::AddCases(CaseTable& table) {
  table.Add("dense bias", {2, 4, 2, 70, 90, 16, 16}, dense_bias(0));
  table.Add("dense bias of heads", {3, 2, 2, 70, 90, 16, 16}, dense_bias(0b0001));
  table.Add("dense bias of pairs", {3, 4, 2, 70, 90, 16, 16}, dense_bias(0b0011), hiding, causal(Causal::kBottomRight));
  table.Add("dense bias of keys", {2, 2, 2, 70, 1100, 16, 16}, dense_bias(0b0110));
  table.Add("dense bias of queries", {2, 2, 2, 70, 1100, 16, 16}, dense_bias(0b1001));
  table.Add("dense bias of one number", {2, 2, 2, 70, 90, 16, 16}, dense_bias(0b1111));
  table.Add("hiding bias, uniform", {2, 2, 2, 40, 6, 16, 16}, dense_bias(0b0001), hiding, uniform);
  table.Add("dense bias of 16 bits", {2, 4, 2, 70, 90, 16, 16}, dense_bias(0), narrow, hiding);
  table.Add("dense bias of keys, 16 bits", {2, 2, 2, 70, 1100, 16, 16}, dense_bias(0b0110), narrow);
  table.Add("decoding, bias of 16 bits", {2, 4, 2, 2, 700, 16, 16}, dense_bias(0), narrow, hiding);
  table.Add("heads side by side, dense bias", {2, 10, 2, 3, 700, 16, 16}, dense_bias(0), hiding);
  table.Add("heads side by side, dense bias of keys", {2, 6, 2, 3, 90, 16, 16}, dense_bias(0b0010), mask(0));
  table.Add("heads side by side, dense bias of queries", {2, 6, 2, 3, 90, 16, 16}, dense_bias(0b1001));
  table.Add("few, hiding bias, dropout", {2, 2, 2, 3, 400, 16, 40}, dense_bias(0), hiding, dropout(0.3));
  table.Add("spoiled bias of padded queries", {3, 4, 2, 40, 30, 16, 16}, dense_bias(0), queries, spoiled);
  table.Add("spoiled bias of padded queries, few", {3, 2, 2, 3, 30, 16, 16}, dense_bias(0), hiding, queries, spoiled);
  table.Add("decoding, dense", {2, 4, 2, 2, 1500, 16, 16}, dense_bias(0b0001), mask(0b0010), uniform);
}

void DenseBiasReference::AddOptions(std::vector<Option>& options) {
  options.push_back({"bias", "bias", [](Case& c, Random& random) { c.bias = RandomOnes(random); }});
  options.push_back(
      {"hiding bias", "bias", [](Case& c, Random& random) { c.bias = RandomOnes(random), c.hiding_bias = true; }});
}

void DenseBiasReference::AddCosts(std::vector<Cost>& costs) { costs.push_back({"dense bias", dense_bias(0b0011)}); }

}  // namespace heed::reference
