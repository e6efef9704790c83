#include "position/sinks/reference.h"

#include "reference/case_table.h"
#include "reference/random_cases.h"

namespace heed::reference {
namespace {

using given::causal, given::dropout, given::keys, given::queries, given::layout, given::lse_gradient, given::mask,
    given::packed, given::softcap, given::statistic_gradients, given::weights, given::window;

constexpr auto sinks = [](double size) { return [size](Case& c) { c.sinks = true, c.sink_size = size; }; };
constexpr auto of_rows = [](Case& c) { c.sinks = c.sink_of_rows = true; };

}  // namespace

std::optional<Number> SinksReference::KeyScore(const Formulas& f, int64_t b, int64_t h, int64_t i) {
  if (!f.attention().sinks) return std::nullopt;
  const auto& scores = f.attention().sinks->scores;
  const auto extent = TableExtent(scores);
  const auto [row, query] = f.RowPlace(b, i);
  return f.Entry(scores, extent[0] == 1 ? 0 : row, h, extent[2] == 1 ? 0 : query);
}

bool SinksReference::Draw(Case& c, Random& random) {
  if (c.empty_row == EmptyRow::kUniform || !Chance(random, 4)) return false;
  c.sinks = true;
  c.sink_of_rows = Chance(random, 3);
  c.sink_size = static_cast<double>(Pick(random, {1, 1, 5, 30}));
  return true;
}

void SinksReference::AddCases(CaseTable& table) {
  table.Add("sinks", {2, 3, 3, 70, 90, 16, 16}, sinks(1), lse_gradient);
  table.Add("sinks, grouped, causal, gradients of statistics", {2, 4, 2, 70, 90, 16, 24}, sinks(3), statistic_gradients,
            causal(Causal::kBottomRight));
  table.Add("sinks above and below all scores", {2, 6, 2, 40, 130, 16, 16}, sinks(60), lse_gradient, weights);
  table.Add("sinks of rows, lengths", {3, 2, 2, 40, 90, 17, 16}, of_rows, keys(LengthKind::kPerQuery), queries);
  table.Add("sinks, packed, dropout", {4, 2, 2, 70, 90, 16, 16}, sinks(2), packed, dropout(0.3), statistic_gradients);
  table.Add("sinks, mask, soft-cap, random strides", {2, 2, 2, 70, 90, 16, 16}, of_rows, mask(2), softcap(2.0),
            layout(Layout::kRandom));
  table.Add("decoding, sinks", {2, 6, 2, 3, 2100, 16, 16}, sinks(5), statistic_gradients);
  table.Add("few, sinks, window", {2, 4, 2, 2, 400, 16, 16}, of_rows, window(70, 0), causal(Causal::kBottomRight));
}

void SinksReference::AddOptions(std::vector<Option>& options) {
  const auto set = [](bool rows) {
    return [rows](Case& c, Random& random) {
      c.sinks = true, c.sink_of_rows = rows;
      c.sink_size = static_cast<double>(Pick(random, {1, 5, 30}));
    };
  };
  options.push_back({"sinks", "sinks", set(false), {.refuses = {"uniform empty rows"}}});
  options.push_back({"sinks of rows", "sinks", set(true), {.refuses = {"uniform empty rows", "sinks"}}});
}

void SinksReference::AddCosts(std::vector<Cost>& costs) { costs.push_back({"sinks", sinks(1)}); }

}  // namespace heed::reference
