#include "position/transformer_xl/reference.h"

#include "reference/case_table.h"
#include "reference/random_cases.h"

namespace heed::reference {
namespace {

using given::causal, given::keys, given::dropout, given::uniform, given::layout, given::offsets, given::window, given::packed,
    given::positions, given::softcap;

constexpr auto xl = [](int64_t distance) { return [distance](Case& c) { c.xl_distance = distance; }; };
constexpr auto without_bias = [](Case& c) { c.xl_bias = false; };

}  // namespace

void TransformerXlReference::AddToProduct(const Formulas& f, const Pair& pair, Number& product) {
  if (!f.attention().transformer_xl) return;
  const auto& [positions, bias] = *f.attention().transformer_xl;
  const int64_t row = f.Clipped(TableExtent(positions)[1], pair);
  const Formulas::Numbers query = f.Query(pair.b, pair.h, pair.i);
  for (int64_t c = 0; c < f.head_dim(); ++c) {
    const Number position = f.Entry(positions, pair.h, row, c);
    product.AddProduct(query(c), position);
    if (bias) product.AddProduct(f.Entry(*bias, pair.h, c), position);
  }
}

bool TransformerXlReference::Draw(Case& c, Random& random) {
  if (!Chance(random, 5) || c.positions == PositionKind::kReal) return false;
  c.xl_distance = Pick(random, {0, 1, 5, 40, 200});
  c.xl_bias = Chance(random, 2);
  return true;
}

void TransformerXlReference::AddCases(CaseTable& table) {
  table.Add("Transformer-XL", {2, 3, 3, 70, 90, 16, 24}, xl(120));
  table.Add("Transformer-XL, clipped, causal, grouped", {2, 4, 2, 150, 150, 16, 16}, xl(16), causal(Causal::kBottomRight));
  table.Add("Transformer-XL without bias", {3, 2, 2, 130, 90, 17, 16}, xl(7), without_bias);
  table.Add("Transformer-XL, distance 0", {1, 2, 2, 33, 40, 16, 16}, xl(0));
  table.Add("Transformer-XL, several chunks", {2, 2, 1, 80, 1100, 16, 16}, xl(70), dropout(0.2));
  table.Add("Transformer-XL, lengths, uniform", {3, 2, 2, 70, 90, 16, 16}, xl(6), keys(LengthKind::kPerQuery), uniform);
  table.Add("Transformer-XL, shuffled positions", {2, 2, 2, 70, 90, 16, 16}, xl(12), positions(PositionKind::kShuffled));
  table.Add("Transformer-XL, packed, window", {4, 2, 2, 70, 90, 16, 16}, xl(9), packed, window(30, 12));
  table.Add("Transformer-XL, offsets, random strides", {3, 2, 2, 40, 90, 20, 16}, xl(15), offsets(1000000, 999990),
            layout(Layout::kRandom));
  table.Add("Transformer-XL, soft-cap, content", {2, 2, 2, 70, 90, 16, 16}, xl(8), softcap(2.0),
            [](Case& c) { c.content_distance = 4; });
  table.Add("Transformer-XL, decoding", {2, 6, 2, 3, 2100, 16, 16}, xl(40), causal(Causal::kBottomRight));
}

void TransformerXlReference::AddOptions(std::vector<Option>& options) {
  options.push_back({"Transformer-XL",
                     "transformer_xl",
                     [](Case& c, Random& random) {
                       c.xl_distance = Pick(random, {0, 1, 5, 64, 200});
                     },
                     {.refuses = {"real positions"}}});
}

void TransformerXlReference::AddCosts(std::vector<Cost>& costs) {
  costs.push_back({"Transformer-XL, 33 offsets", xl(16)});
  costs.push_back({"Transformer-XL, every offset", [](Case& c) { c.xl_distance = c.shape.q_len - 1; }});
}

}  // namespace heed::reference
