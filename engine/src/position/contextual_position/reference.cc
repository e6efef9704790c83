#include "position/contextual_position/reference.h"

#include <algorithm>
#include <cmath>

#include "reference/case_table.h"
#include "reference/random_cases.h"

namespace heed::reference {
namespace {

using given::causal, given::keys, given::dropout, given::uniform, given::layout, given::window, given::packed, given::positions,
    given::softcap, given::scale, given::mask, given::spoiled;

constexpr auto contextual = [](int64_t rows) { return [rows](Case& c) { c.contextual = rows; }; };

double Gate(double score) { return 1 / (1 + std::exp(-score)); }

}  // namespace

void ContextualPositionReference::MakeRow(const Formulas& f, const SeenKeys& seen, std::span<Number> scores) {
  if (!f.attention().contextual_position) return;
  const Table<2>& table = f.attention().contextual_position->table;
  const int64_t last = TableExtent(table)[0] - 1;
  const auto end = static_cast<double>(last);
  const Formulas::Numbers query = f.Query(seen.b, seen.h, seen.i);
  const auto product = [&](int64_t row) {
    double sum = 0;
    for (int64_t c = 0; c < f.head_dim(); ++c) sum += query(c).value * TableEntry(table, row, c);
    return sum;
  };
  Number gates;  // of this key and all behind it
  for (size_t x = scores.size(); x-- > 0;) {
    Number& score = scores[x];
    const double open = Gate(score.value);
    Number sum;
    sum.Add(gates);
    sum.Add(open);
    sum.Depend(score, open * Gate(-score.value));
    gates = sum;
    const double position = std::min(sum.value, end), share = position - std::floor(position);
    const auto low = static_cast<int64_t>(position), high = std::min(low + 1, last);
    const double at_low = product(low), slope = product(high) - at_low;
    Number made;
    made.Add(score);
    made.Add(at_low + share * slope);
    // A position is rounded at its own size, as a sum of gates and where it is taken apart into row and share.
    made.magnitude += score.magnitude - std::abs(score.value) + 2 * position * std::abs(slope);
    for (int64_t c = 0; c < f.head_dim(); ++c) {
      const Number q = query(c), from = f.Entry(table, low, c), to = f.Entry(table, high, c);
      const double step = to.value - from.value, moved = position * std::abs(q.value);
      made.Depend(q, from.value + share * step, 0, position * std::abs(step));
      made.Depend(from, (1 - share) * q.value, 0, moved);
      made.Depend(to, share * q.value, 0, moved);
    }
    // So near the last row that rounding may take it to the other side, some 64 units in the last place of a float, either
    // slope is right: all of it counts as noise, which is in units of the accumulator's last place.
    const bool at_end = last > 0 && std::abs(sum.value - end) <= 0x1p-17 * end;
    made.Depend(sum, slope, 0, at_end ? 0x1p23 * std::abs(product(last) - product(last - 1)) : 0);
    score = made;
  }
}

bool ContextualPositionReference::Draw(Case& c, Random& random) {
  if (!Chance(random, 5) || c.scale == 0.0) return false;
  c.contextual = Pick(random, {1, 2, 5, 40, 200});
  return true;
}

void ContextualPositionReference::AddCases(CaseTable& table) {
  table.Add("contextual positions", {2, 3, 3, 70, 90, 16, 24}, contextual(60));
  table.Add("contextual positions, causal, grouped", {2, 4, 2, 150, 150, 16, 16}, contextual(16), causal(Causal::kBottomRight));
  table.Add("contextual positions, one row", {1, 2, 2, 33, 40, 16, 16}, contextual(1));
  table.Add("contextual positions, never the last", {2, 2, 2, 70, 90, 16, 16}, contextual(200), causal(Causal::kTopLeft));
  table.Add("spoiled, contextual positions, uniform", {3, 2, 2, 40, 30, 16, 16}, contextual(6), mask(0b0011),
            causal(Causal::kBottomRight), uniform, spoiled);
  table.Add("contextual positions, many keys", {2, 2, 1, 80, 1100, 16, 16}, contextual(70), dropout(0.2));
  table.Add("contextual positions, lengths, uniform", {3, 2, 2, 70, 90, 16, 16}, contextual(6), keys(LengthKind::kPerQuery),
            uniform);
  table.Add("contextual positions, mask", {2, 2, 2, 70, 90, 16, 16}, contextual(12), mask(0));
  table.Add("contextual positions, shuffled positions", {2, 2, 2, 70, 90, 16, 16}, contextual(12),
            positions(PositionKind::kShuffled), causal(Causal::kBottomRight));
  table.Add("contextual positions, packed, window", {4, 2, 2, 70, 90, 16, 16}, contextual(9), packed, window(30, 12));
  table.Add("contextual positions, random strides", {3, 2, 2, 40, 90, 20, 16}, contextual(15), layout(Layout::kRandom));
  table.Add("contextual positions, soft-cap, bias", {2, 2, 2, 70, 90, 16, 16}, contextual(8), softcap(2.0),
            [](Case& c) { c.max_distance = 4; });
  table.Add("contextual positions, negative scale", {2, 2, 2, 40, 70, 16, 16}, contextual(8), scale(-0.3));
  table.Add("contextual positions, decoding", {2, 6, 2, 3, 2100, 16, 16}, contextual(40), causal(Causal::kBottomRight));
  table.Add("contextual positions, decoding, never the last", {1, 2, 2, 1, 2100, 16, 16}, contextual(2200));
}

void ContextualPositionReference::AddOptions(std::vector<Option>& options) {
  options.push_back({"CoPE",
                     "contextual_position",
                     [](Case& c, Random& random) {
                       c.contextual = Pick(random, {1, 2, 5, 64, 200});
                     },
                     {}});
}

void ContextualPositionReference::AddCosts(std::vector<Cost>& costs) {
  costs.push_back({"contextual positions, 64 rows", contextual(64)});
  costs.push_back({"contextual positions, all different", [](Case& c) { c.contextual = c.shape.kv_len; }});
}

}  // namespace heed::reference
