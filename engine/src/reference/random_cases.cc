#include "reference/random_cases.h"

#include <algorithm>
#include <utility>

#include "reference/fuzz_cases.h"
#include "reference/schemes.h"

namespace heed::reference {
namespace {

Shape RandomShape(Random& random) {
  const int64_t kv_heads = Pick(random, {1, 1, 2, 3}), group = Pick(random, {1, 1, 1, 2, 4});
  Shape shape{Pick(random, {0, 1, 1, 2, 3}), kv_heads * group, kv_heads, 0, 0, 0, 0};
  shape.q_len = Pick(random, {0, 1, 2, 15, 16, 17, 63, 64, 65, 127, 130});
  shape.kv_len = Pick(random, {0, 1, 3, 16, 63, 64, 65, 127, 129, 200, 520});
  shape.head_dim = Pick(random, {1, 2, 3, 8, 15, 16, 17, 31, 64, 65, 80});
  shape.value_dim = Pick(random, {1, 2, 3, 8, 15, 16, 17, 31, 64, 65, 80});
  return shape;
}

Layout RandomLayout(Random& random) { return static_cast<Layout>(Pick(random, {0, 0, 1, 2, 3, 4, 5, 5})); }
double RandomDropout(Random& random) { return static_cast<double>(Pick(random, {1, 10, 50, 90})) / 100.0; }
int64_t RandomOffset(Random& random) { return Pick(random, {-5, 0, 7, 100, 1000000}); }

// The options by which order is given; some pairs exclude each other.
void AddOrder(Case& c, Random& random) {
  c.causal = static_cast<Causal>(Pick(random, {0, 0, 1, 1, 2}));
  if (c.causal != Causal::kTopLeft && Chance(random, 4)) c.query_offset = RandomOffset(random);
  if (Chance(random, 4)) c.key_offset = RandomOffset(random);
  if (Chance(random, 4)) c.window = {Pick(random, {-1, 0, 3, 70}), Pick(random, {-1, 0, 5, 64})};
  if (Chance(random, 6) && c.window.left < 0) c.prefix = true;
  if (Chance(random, 6) && c.shape.batch > 0) c.packed = true;
  if (Chance(random, 4) && !c.prefix && c.causal != Causal::kTopLeft) {
    c.positions = static_cast<PositionKind>(Pick(random, {1, 2, 3}));
    c.query_offset.reset();
    c.key_offset.reset();
  }
}

std::vector<Option> MakeOptions() {
  std::vector<Option> options;
  const auto add = [&](const char* name, const char* argument, auto set) { options.push_back({name, argument, set}); };
  add("causal", "causal", [](Case& c, Random&) { c.causal = Causal::kBottomRight; });
  add("causal top-left", "causal", [](Case& c, Random&) { c.causal = Causal::kTopLeft; });
  add("window", "window", [](Case& c, Random& r) { c.window = {Pick(r, {0, 3, 70}), Pick(r, {-1, 0, 5, 64})}; });
  add("window to the right", "window", [](Case& c, Random& r) { c.window = {-1, Pick(r, {0, 5, 64})}; });
  add("prefix", "prefix_lengths", [](Case& c, Random&) { c.prefix = true; });
  add("key lengths", "key_lengths", [](Case& c, Random&) { c.key_lengths = LengthKind::kPerBatch; });
  add("key lengths per query", "key_lengths", [](Case& c, Random&) { c.key_lengths = LengthKind::kPerQuery; });
  add("query lengths", "query_lengths", [](Case& c, Random&) { c.query_lengths = true; });
  add("packed", "packed", [](Case& c, Random&) { c.packed = true; });
  add("query offset", "query_positions", [](Case& c, Random& r) { c.query_offset = RandomOffset(r); });
  add("key offset", "key_positions", [](Case& c, Random& r) { c.key_offset = RandomOffset(r); });
  add("ascending positions", "positions", [](Case& c, Random&) { c.positions = PositionKind::kAscending; });
  add("shuffled positions", "positions", [](Case& c, Random&) { c.positions = PositionKind::kShuffled; });
  add("real positions", "positions", [](Case& c, Random&) { c.positions = PositionKind::kReal; });
  add("mask", "mask", [](Case& c, Random& r) { c.mask = RandomOnes(r); });
  ForSchemes<0, kFirstSchemes>([&]<class Scheme, std::size_t>() { Scheme::AddOptions(options); });
  // Not 0: equal weights round alike, and their sum by the number of keys; the table has a case of it.
  add("scale", "scale", [](Case& c, Random& r) { c.scale = static_cast<double>(Pick(r, {-10, 1, 3, 20})) / 10.0; });
  add("soft-cap", "softcap", [](Case& c, Random& r) { c.softcap = static_cast<double>(Pick(r, {1, 5, 50})); });
  add("dropout", "dropout", [](Case& c, Random& r) { c.dropout = RandomDropout(r); });
  add("uniform empty rows", "empty_row", [](Case& c, Random&) { c.empty_row = EmptyRow::kUniform; });
  add("statistics", "statistics", [](Case& c, Random&) { c.statistics = true; });
  add("weights", "weights", [](Case& c, Random&) { c.weights = true; });
  add("gradient of lse", "d_lse", [](Case& c, Random&) { c.lse_gradient = true; });
  ForSchemes<kFirstSchemes, kSchemes>([&]<class Scheme, std::size_t>() { Scheme::AddOptions(options); });
  add("gradients of statistics", "d_statistics", [](Case& c, Random&) { c.statistics = c.statistic_gradients = true; });
  add("fused precision", "precision", [](Case& c, Random&) { c.precision = Precision::kFused; });
  return options;
}

// Reads the number that ends a name after a space, and cuts both off.
std::optional<uint64_t> TakeSeed(std::string& name) {
  const std::size_t space = name.rfind(' ');
  if (space == std::string::npos || space + 1 == name.size()) return std::nullopt;
  const std::string digits = name.substr(space + 1);
  if (digits.size() > 19 || !std::all_of(digits.begin(), digits.end(), [](char x) { return x >= '0' && x <= '9'; }))
    return std::nullopt;
  name.resize(space);
  return std::stoull(digits);
}

const std::string kFusedEnd = ", fused";

const Option* FindOption(const std::string& name) {
  const auto found = std::ranges::find(Options(), name, &Option::name);
  return found == Options().end() ? nullptr : &*found;
}

}  // namespace

Case RandomCase(uint64_t seed) {
  Random random(seed);
  Case c;
  c.name = "random " + std::to_string(seed);
  c.shape = RandomShape(random);
  c.layout = RandomLayout(random);
  c.key_lengths = static_cast<LengthKind>(Pick(random, {0, 0, 1, 2}));
  c.query_lengths = Chance(random, 4);
  if (Chance(random, 3)) c.dropout = RandomDropout(random);
  if (Chance(random, 4)) c.empty_row = EmptyRow::kUniform;
  if (Chance(random, 4)) c.scale = static_cast<double>(Pick(random, {-10, 0, 3, 20})) / 10.0;
  AddOrder(c, random);
  DrawFirst(random, [&]<class Scheme>(Random& stream) { Scheme::Draw(c, stream); });
  if (Chance(random, 5)) c.mask = RandomOnes(random);
  if (Chance(random, 5)) c.softcap = static_cast<double>(Pick(random, {1, 5, 50}));
  c.statistics = Chance(random, 2);
  c.weights = !c.packed && Chance(random, 4);
  c.lse_gradient = Chance(random, 4);
  return c;
}

std::vector<Case> RandomCases(uint64_t seed) {
  std::vector<Case> cases{RandomCase(seed)};
  Case wide = cases.front();
  wide.name = "wide " + wide.name;
  bool drawn = false;
  DrawLater(seed, [&]<class Scheme>(Random& stream) { drawn |= Scheme::Draw(wide, stream); });
  if (drawn) cases.push_back(std::move(wide));
  return cases;
}

const std::vector<Option>& Options() {
  static const std::vector<Option> options = MakeOptions();
  return options;
}

bool AreApart(const Option& a, const Option& b) { return a.name != b.name && (a.argument != b.argument || a.manners.joins); }

Case PairCase(const Option& a, const Option& b, uint64_t seed) {
  Random random(seed);
  Case c;
  c.name = "pair " + a.name + " + " + b.name + " " + std::to_string(seed);
  c.statistics = false;
  c.shape = RandomShape(random);
  c.layout = RandomLayout(random);
  a.set(c, random);
  if (a.name != b.name) b.set(c, random);
  return c;
}

Case Fused(Case c) {
  c.name += kFusedEnd;
  c.precision = Precision::kFused;
  return c;
}

std::optional<Case> NamedCase(const std::string& name) {
  if (const std::size_t end = name.rfind(kFusedEnd); end != std::string::npos && end + kFusedEnd.size() == name.size()) {
    std::optional<Case> c = NamedCase(name.substr(0, end));
    return c && c->precision == Precision::kFloat32 ? std::optional(Fused(*c)) : std::nullopt;
  }
  if (const std::size_t end = name.rfind(kReduced); end != std::string::npos) {
    std::optional<Case> c = NamedCase(name.substr(0, end));
    const auto known = std::ranges::find(Reductions(), name.substr(end + kReduced.size()), &Reduction::name);
    if (!c || known == Reductions().end() || !known->apply(*c)) return std::nullopt;
    c->name = name;
    return c;
  }
  if (const auto row = std::ranges::find(Cases(), name, &Case::name); row != Cases().end()) return *row;
  std::string kind = name;
  const std::optional<uint64_t> seed = TakeSeed(kind);
  if (!seed) return std::nullopt;
  if (kind == "fuzz") return FuzzCase(*seed);
  if (kind == "random") return RandomCase(*seed);
  if (kind == "wide random") {
    const std::vector<Case> cases = RandomCases(*seed);
    return cases.size() > 1 ? std::optional(cases.back()) : std::nullopt;
  }
  const std::size_t plus = kind.find(" + ");
  if (kind.rfind("pair ", 0) != 0 || plus == std::string::npos) return std::nullopt;
  const Option *a = FindOption(kind.substr(5, plus - 5)), *b = FindOption(kind.substr(plus + 3));
  if (!a || !b) return std::nullopt;
  return PairCase(*a, *b, *seed);
}

}  // namespace heed::reference
