#include "position/contextual_position/reference.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "reference/case_table.h"
#include "reference/cost.h"
#include "reference/random_cases.h"
#include "reference/random_draws.h"
#include "reference/table_entries.h"

namespace heed::reference {
namespace {

using given::causal, given::keys, given::dropout, given::uniform, given::layout, given::window, given::packed, given::positions,
    given::softcap, given::scale, given::mask, given::spoiled;

constexpr auto contextual = [](int64_t rows) { return [rows](Case& c) { c.contextual = rows; }; };

double Gate(double score) { return 1 / (1 + std::exp(-score)); }

// What a query meets at a position of its own counting.
struct Place {
  double position, share;  // share: how far it is from row `low` to row `high`
  int64_t low, high;
  bool at_end;  // so near the last row that rounding may take it to the other side, where the slope is another one
};

class Rows {
 public:
  Rows(const Formulas& f, const SeenKeys& seen) : f_(f), seen_(seen) {}

  int64_t count() const { return TableExtent(f_.attention().contextual_position->table)[0]; }
  double Entry(int64_t row, int64_t c) const { return TableEntry(f_.attention().contextual_position->table, row, c); }
  double Product(int64_t row) const {
    const Formulas::Row query = f_.Query(seen_.b, seen_.h, seen_.i);
    double sum = 0;
    for (int64_t c = 0; c < f_.head_dim(); ++c) sum += query(c) * Entry(row, c);
    return sum;
  }

  // Of every key that is seen.
  std::vector<Place> Places(std::span<const Sum> scores) const {
    std::vector<Place> places(scores.size());
    constexpr double kNear = 0x1p-17;  // some 64 units in the last place of a float
    const int64_t last = count() - 1;
    double sum = 0;
    for (size_t x = scores.size(); x-- > 0;) {
      sum += Gate(scores[x].value);
      const double position = std::min(sum, static_cast<double>(last));
      const auto low = static_cast<int64_t>(std::floor(position));
      places[x] = {position, position - static_cast<double>(low), low, std::min(low + 1, last),
                   last > 0 && std::abs(sum - static_cast<double>(last)) <= kNear * static_cast<double>(last)};
    }
    return places;
  }

 private:
  const Formulas& f_;
  const SeenKeys& seen_;
};

}  // namespace

void ContextualPositionReference::MakeRow(const Formulas& f, const SeenKeys& seen, std::span<Sum> scores) {
  if (!f.attention().contextual_position) return;
  const Rows rows(f, seen);
  const std::vector<Place> places = rows.Places(scores);
  for (size_t x = 0; x < scores.size(); ++x) {
    const double low = rows.Product(places[x].low), slope = rows.Product(places[x].high) - low;
    scores[x] += low + places[x].share * slope;
    // A position is rounded at its own size, as a sum of gates and where it is taken apart into row and share.
    scores[x].magnitude += 2 * places[x].position * std::abs(slope);
  }
}

void ContextualPositionReference::PassRowBack(const Formulas& f, const SeenKeys& seen, std::span<const Sum> before,
                                              std::span<GradientTerm> scores, const GradientSums& d) {
  if (!f.attention().contextual_position) return;
  const Rows rows(f, seen);
  const std::vector<Place> places = rows.Places(before);
  const Formulas::Row query = f.Query(seen.b, seen.h, seen.i);
  const int64_t head_dim = f.head_dim(), query_row = f.QueryRow(seen.b, seen.h, seen.i) * head_dim;
  const ArraySums d_q = d.q(), d_table = d.Of("dContextualPosition");
  GradientTerm of_gates{0, 0};
  for (size_t x = 0; x < scores.size(); ++x) {
    const Place& place = places[x];
    const GradientTerm score = scores[x];
    // What the rounding of a position at its own size moves from one row to the other.
    const GradientTerm moved{0, std::abs(score.value) * place.position};
    for (int64_t c = 0; c < head_dim; ++c) {
      const double low = rows.Entry(place.low, c), high = rows.Entry(place.high, c);
      d_q.Add(query_row + c, score.Times(low + place.share * (high - low)));
      d_q.Add(query_row + c, moved.Times(high - low));
      for (const auto& [row, share] : {std::pair{place.low, 1 - place.share}, std::pair{place.high, place.share}}) {
        d_table.Add(row * head_dim + c, score.Times(share * query(c)));
        d_table.Add(row * head_dim + c, moved.Times(query(c)));
      }
    }
    const GradientTerm position = score.Times(rows.Product(place.high) - rows.Product(place.low));
    // Either slope is right there: all of it counts as noise, which is in units of the accumulator's last place.
    constexpr double kWhole = 0x1p23;
    const double turn =
        place.at_end ? std::abs(score.value * (rows.Product(rows.count() - 1) - rows.Product(rows.count() - 2))) : 0;
    of_gates = {of_gates.value + position.value, of_gates.noise + position.noise + kWhole * turn};
    const double open = Gate(before[x].value);
    const GradientTerm by_gate = of_gates.Times(open * Gate(-before[x].value));
    scores[x] = {score.value + by_gate.value, score.noise + by_gate.noise};
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
