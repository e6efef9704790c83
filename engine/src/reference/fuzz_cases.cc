#include "reference/fuzz_cases.h"

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>

#include "reference/random_cases.h"
#include "reference/schemes.h"

namespace heed::reference {
namespace {

Shape SmallShape(Random& random) {
  const int64_t kv_heads = Pick(random, {1, 1, 1, 2, 3}), group = Pick(random, {1, 1, 1, 2, 3, 5});
  Shape shape{Pick(random, {1, 1, 1, 2, 2, 3, 0}), kv_heads * group, kv_heads, 0, 0, 0, 0};
  shape.q_len = Pick(random, {0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 20, 31, 33, 40, 65});
  shape.kv_len = Pick(random, {0, 1, 2, 3, 7, 15, 16, 17, 20, 33, 47, 48, 63, 64, 65, 80, 100, 130, 270});
  shape.head_dim = Pick(random, {1, 2, 3, 4, 8, 16, 17});
  shape.value_dim = Pick(random, {1, 2, 3, 4, 8, 16, 17});
  if (Chance(random, 40)) shape.q_heads = 0;
  return shape;
}

bool Repeats(Layout layout) { return layout == Layout::kShared || layout == Layout::kRandom; }

// An extent becomes `smaller` of it, 1 at the least.
template <class Smaller>
std::function<bool(Case&)> Shrink(int64_t Shape::*extent, const Smaller& smaller) {
  return [extent, smaller](Case& c) {
    const int64_t before = c.shape.*extent;
    c.shape.*extent = std::min(before, std::max<int64_t>(1, smaller(before)));
    return c.shape.*extent < before;
  };
}
constexpr auto one = [](int64_t) { return int64_t{1}; };
constexpr auto half = [](int64_t extent) { return extent / 2; };
constexpr auto one_less = [](int64_t extent) { return extent - 1; };

// Sets something to what it is where nothing is asked for.
template <class Member>
std::function<bool(Case&)> Without(Member Case::*member) {
  return [member](Case& c) {
    const bool given = !(c.*member == Case{}.*member);
    c.*member = Case{}.*member;
    return given;
  };
}

// The same of what a scheme has a case say.
template <class Part>
bool WithoutPart(Case& c) {
  Part& part = c;
  const bool given = part != Part{};
  part = Part{};
  return given;
}

std::vector<Reduction> MakeReductions() {
  std::vector<Reduction> all;
  const auto add = [&](std::string name, auto apply) { all.push_back({std::move(name), std::move(apply)}); };
  const auto one_head = [](Case& c) {
    const bool several = c.shape.q_heads > 1 || c.shape.kv_heads > 1;
    if (several) c.shape.q_heads = c.shape.kv_heads = 1;
    return several;
  };
  add("one key", Shrink(&Shape::kv_len, one));
  add("one query", Shrink(&Shape::q_len, one));
  add("one batch row", Shrink(&Shape::batch, one));
  add("width 1", Shrink(&Shape::head_dim, one));
  add("width of values 1", Shrink(&Shape::value_dim, one));
  add("half the keys", Shrink(&Shape::kv_len, half));
  add("half the queries", Shrink(&Shape::q_len, half));
  add("one head", one_head);
  add("half the width", Shrink(&Shape::head_dim, half));
  add("half the width of values", Shrink(&Shape::value_dim, half));
  [&]<std::size_t... at>(std::index_sequence<at...>) {
    (add(std::string("no ") + kSchemeNames[at], &WithoutPart<std::tuple_element_t<at, SchemeCaseParts>>), ...);
  }(std::make_index_sequence<kSchemes>());
  add("no mask", Without(&Case::mask));
  add("no positions", Without(&Case::positions));
  add("no window", [](Case& c) { return std::exchange(c.window, {}).present(); });
  add("no dropout", Without(&Case::dropout));
  add("no query lengths", Without(&Case::query_lengths));
  add("no key lengths", Without(&Case::key_lengths));
  add("no prefix", Without(&Case::prefix));
  add("not packed", Without(&Case::packed));
  add("no soft-cap", Without(&Case::softcap));
  add("no scale", Without(&Case::scale));
  add("no offset of queries", Without(&Case::query_offset));
  add("no offset of keys", Without(&Case::key_offset));
  add("no causality", Without(&Case::causal));
  add("empty rows are 0", Without(&Case::empty_row));
  add("contiguous", Without(&Case::layout));
  add("not spoiled", Without(&Case::spoiled));
  add("no gradient of lse", Without(&Case::lse_gradient));
  add("no gradients of statistics", Without(&Case::statistic_gradients));
  add("no weights", Without(&Case::weights));
  add("no statistics", [](Case& c) {
    c.statistic_gradients = false;
    return std::exchange(c.statistics, false);
  });
  add("float weights", Without(&Case::precision));
  add("a key less", Shrink(&Shape::kv_len, one_less));
  add("a query less", Shrink(&Shape::q_len, one_less));
  return all;
}

}  // namespace

Case FuzzCase(uint64_t seed) {
  Random random(seed ^ 0x9E3779B97F4A7C15);
  Case c = RandomCases(seed).back();
  c.name = "fuzz " + std::to_string(seed);
  c.shape = SmallShape(random);
  c.packed = c.packed && c.shape.batch > 0;
  c.window = Chance(random, 2) ? Window{Pick(random, {-1, 0, 1, 5, 20}), Pick(random, {-1, 0, 1, 5, 20})} : Window{};
  if (c.window.left >= 0) c.prefix = false;
  if (Chance(random, 2) && !c.prefix && c.causal != Causal::kTopLeft) {
    c.positions = PositionKind::kJumping;
    c.query_offset.reset();
    c.key_offset.reset();
  }
  c.spoiled = Chance(random, 3) && !Repeats(c.layout);
  if (Chance(random, 8)) c.precision = Precision::kFused;
  c.statistic_gradients = c.statistics && Chance(random, 2);
  // No number of 16 bits: one would cancel a score at its cap to the bit, in float but not in double, where programs have
  // kinks.
  if (c.softcap) *c.softcap *= 1.1;
  return c;
}

const std::vector<Reduction>& Reductions() {
  static const std::vector<Reduction> reductions = MakeReductions();
  return reductions;
}

Case Minimised(Case failing, const std::function<bool(const Case&)>& fails) {
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (const Reduction& reduction : Reductions()) {
      Case next = failing;
      if (!reduction.apply(next)) continue;
      next.name += kReduced + reduction.name;
      if (!fails(next)) continue;
      failing = std::move(next);
      smaller = true;
    }
  }
  return failing;
}

}  // namespace heed::reference
