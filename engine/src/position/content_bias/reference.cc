#include "position/content_bias/reference.h"

#include <cmath>

#include "reference/case_table.h"
#include "reference/random_cases.h"

namespace heed::reference {
namespace {

using given::causal, given::keys, given::dropout, given::uniform, given::layout, given::offsets, given::window, given::packed,
    given::positions, given::softcap;

constexpr auto content = [](int64_t distance) { return [distance](Case& c) { c.content_distance = distance; }; };
constexpr auto keys_only = [](Case& c) { c.content_values = false; };
constexpr auto values_only = [](Case& c) { c.content_keys = false; };
constexpr auto and_queries = [](Case& c) { c.content_queries = true; };
constexpr auto head_queries = [](Case& c) { c.content_queries = false, c.content_head_queries = true; };
constexpr auto head_queries_only = [](Case& c) { c.content_keys = c.content_values = false, c.content_head_queries = true; };
constexpr auto queries_only = [](Case& c) { c.content_keys = c.content_values = false, c.content_queries = true; };
// Of other schemes.
constexpr auto slopes = [](Case& c) { c.slopes = true; };
constexpr auto bias = [](int64_t distance) { return [distance](Case& c) { c.max_distance = distance; }; };
constexpr auto dense_bias = [](Case& c) { c.bias = 0b0001; };

// The row of the tables for a pair.
int64_t RowFor(const Formulas& f, const Pair& pair) {
  const auto& [keys, values, queries, head_queries] = *f.attention().content_bias;
  if (head_queries) return f.Clipped(TableExtent(*head_queries)[1], pair);
  return f.Clipped(TableExtent(keys ? *keys : values ? *values : *queries)[0], pair);
}

// Asks for tables beside those that are asked for already.
void SetContent(Case& c, Random& random, bool keys, bool values, bool queries) {
  if (c.content_distance < 0) {
    c.content_distance = Pick(random, {0, 1, 4, 40, 200});
    c.content_keys = c.content_values = c.content_queries = false;
  }
  c.content_keys |= keys;
  c.content_values |= values;
  c.content_queries |= queries;
}

}  // namespace

void ContentBiasReference::AddToProduct(const Formulas& f, const Pair& pair, Number& product) {
  if (!f.attention().content_bias) return;
  const ContentBias& content = *f.attention().content_bias;
  const int64_t row = RowFor(f, pair);
  const Formulas::Numbers query = f.Query(pair.b, pair.h, pair.i), key = f.Key(pair.b, pair.h, pair.j);
  for (int64_t c = 0; c < f.head_dim(); ++c) {
    if (content.keys) product.AddProduct(query(c), f.Entry(*content.keys, row, c));
    if (content.queries) product.AddProduct(key(c), f.Entry(*content.queries, row, c));
    if (content.head_queries) product.AddProduct(key(c), f.Entry(*content.head_queries, pair.h, row, c));
  }
}

void ContentBiasReference::AddToValue(const Formulas& f, const Pair& pair, std::span<Number> value) {
  const auto& content = f.attention().content_bias;
  if (!content || !content->values) return;
  const int64_t row = RowFor(f, pair);
  for (int64_t c = 0; c < f.value_dim(); ++c) value[static_cast<size_t>(c)].Add(f.Entry(*content->values, row, c));
}

bool ContentBiasReference::Draw(Case& c, Random& random) {
  if (!Chance(random, 4) || c.positions == PositionKind::kReal) return false;
  const int64_t sides = Pick(random, {1, 2, 3, 4, 5, 6, 7});
  SetContent(c, random, sides & 1, sides & 2, sides & 4);
  if (c.content_queries && Chance(random, 3)) head_queries(c);
  return true;
}

void ContentBiasReference::AddCases(CaseTable& table) {
  table.Add("packed, several chunks", {2, 1, 1, 150, 1100, 16, 16}, packed, causal(Causal::kBottomRight), content(4));
  table.Add("content", {2, 3, 3, 70, 90, 16, 24}, content(5));
  table.Add("content, wide", {2, 2, 2, 130, 90, 16, 16}, content(200));
  table.Add("content keys, causal", {2, 4, 2, 150, 150, 16, 16}, content(16), keys_only, causal(Causal::kBottomRight));
  table.Add("content values, dropout", {2, 2, 2, 70, 90, 16, 16}, content(3), values_only, dropout(0.3));
  table.Add("content, lengths, uniform", {3, 2, 2, 70, 90, 16, 16}, content(6), keys(LengthKind::kPerQuery), uniform);
  table.Add("content, shuffled positions", {2, 2, 2, 70, 90, 16, 16}, content(6), positions(PositionKind::kShuffled));
  table.Add("content queries", {2, 3, 3, 70, 90, 16, 24}, content(5), queries_only);
  table.Add("content queries, wide", {2, 2, 2, 130, 190, 17, 16}, content(400), queries_only);
  table.Add("content queries, distance 0", {1, 2, 2, 33, 70, 16, 16}, content(0), queries_only);
  table.Add("content queries, causal, grouped", {2, 4, 2, 150, 150, 16, 16}, content(30), keys_only, and_queries,
            causal(Causal::kBottomRight));
  table.Add("content queries, several chunks", {1, 2, 1, 80, 1100, 16, 16}, content(70), and_queries, dropout(0.2));
  table.Add("content queries, lengths, uniform", {3, 2, 2, 70, 90, 16, 16}, content(6), queries_only,
            keys(LengthKind::kPerQuery), uniform);
  table.Add("content queries, shuffled positions", {2, 2, 2, 70, 90, 16, 16}, content(40), queries_only,
            positions(PositionKind::kShuffled));
  table.Add("content queries, packed, window", {4, 2, 2, 70, 90, 16, 16}, content(9), queries_only, packed, window(30, 12));
  table.Add("content queries, offsets, spread", {2, 2, 2, 40, 90, 20, 16}, content(15), queries_only, offsets(1000000, 999990),
            layout(Layout::kSpread));
  table.Add("content queries by head", {2, 4, 2, 70, 90, 16, 24}, content(5), keys_only, head_queries);
  table.Add("content queries by head, causal, wide", {2, 3, 3, 130, 190, 17, 16}, content(400), head_queries_only,
            causal(Causal::kBottomRight));
  table.Add("content queries by head, several chunks", {3, 2, 1, 80, 1100, 16, 16}, content(70), head_queries, dropout(0.2));
  table.Add("content queries by head, lengths, uniform", {3, 2, 2, 70, 90, 16, 16}, content(6), head_queries_only,
            keys(LengthKind::kPerQuery), uniform);
  table.Add("content queries by head, shuffled positions", {2, 2, 2, 70, 90, 16, 16}, content(40), head_queries_only,
            positions(PositionKind::kShuffled));
  table.Add("content queries by head, packed, window", {4, 2, 2, 70, 90, 16, 16}, content(9), head_queries_only, packed,
            window(30, 12));
  table.Add("content queries by head, random strides", {2, 2, 2, 40, 90, 20, 16}, content(15), head_queries_only,
            offsets(1000000, 999990), layout(Layout::kRandom), softcap(2.0));
  table.Add("content queries by head, Transformer-XL", {2, 4, 2, 100, 150, 16, 16}, content(30), head_queries_only,
            [](Case& c) { c.xl_distance = 30, c.xl_bias = false; });
  table.Add("decoding, content queries by head", {2, 6, 2, 3, 2100, 16, 16}, content(40), head_queries,
            causal(Causal::kBottomRight));
  table.Add("soft-cap, content queries", {2, 2, 2, 70, 90, 16, 16}, softcap(2.0), content(4), and_queries);
  table.Add("soft-cap, content, bias", {2, 2, 2, 70, 90, 16, 16}, softcap(2.0), content(4), bias(9),
            causal(Causal::kBottomRight));
  table.Add("many biases", {2, 4, 2, 70, 90, 16, 16}, slopes, bias(9), content(4), dense_bias, dropout(0.1));
  table.Add("decoding, slopes, content", {2, 6, 2, 3, 2100, 16, 16}, slopes, content(4), softcap(5.0));
  table.Add("decoding, content queries", {2, 6, 2, 3, 2100, 16, 16}, content(40), and_queries, causal(Causal::kBottomRight));
  table.Add("random strides", {3, 4, 2, 40, 90, 24, 20}, layout(Layout::kRandom), bias(5), dense_bias, content(3));
}

void ContentBiasReference::AddOptions(std::vector<Option>& options) {
  const auto add = [&](const char* name, bool keys, bool values, bool queries) {
    const auto set = [=](Case& c, Random& random) { SetContent(c, random, keys, values, queries); };
    options.push_back({name, "content_bias", set, {.joins = true, .refuses = {"real positions"}}});
  };
  add("content keys", true, false, false);
  add("content values", false, true, false);
  add("content queries", false, false, true);
  options.push_back({"content queries by head",
                     "content_bias",
                     [](Case& c, Random& random) {
                       SetContent(c, random, false, false, false);
                       c.content_head_queries = true;
                     },
                     {.joins = true, .refuses = {"real positions", "content queries"}}});
}

void ContentBiasReference::AddCosts(std::vector<Cost>& costs) {
  costs.push_back({"content, 33 offsets", content(16)});
  costs.push_back({"content queries, 33 offsets", [](Case& c) { content(16)(c), queries_only(c); }});
  costs.push_back({"content queries by head, 33 offsets", [](Case& c) { content(16)(c), head_queries_only(c); }});
  costs.push_back(
      {"content queries by head, every offset", [](Case& c) { content(c.shape.q_len - 1)(c), head_queries_only(c); }});
}

}  // namespace heed::reference
