// The programs that cases have, and the tables that they read.
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "position/pair_program/reference.h"
#include "reference/case_table.h"
#include "reference/random_cases.h"
#include "reference/random_tables.h"

namespace heed::reference {
namespace {

using namespace program;  // expressions
using given::causal, given::dropout, given::layout, given::offsets, given::packed, given::positions, given::softcap,
    given::uniform, given::weights;

Expression Offset() { return Key() - Query(); }

// What random programs are made of. Everything stays of the size of a score, and changes no faster than it, whatever is put on
// top of what; steps are taken between whole numbers alone.
class RandomProgram {
 public:
  explicit RandomProgram(uint64_t seed) : random_(seed) {
    reals_ = {Score(), Captured(0)(Head()), Captured(1)(Query()), Captured(2)(Key()),
              Captured(3)(Head(), Max(Min(Offset(), 6), -6) + 6)};
    wholes_ = {Query(), Key(), Head(), Batch(), Offset(), Captured::Whole(4)(Key())};
  }

  Expression Make() {
    const int64_t depth = 1 + static_cast<int64_t>(random_() % 30);
    for (int64_t step = 0; step < depth; ++step) {
      if (Chance(random_, 4)) wholes_.push_back(Whole());
      reals_.push_back(Real());
    }
    // The last ones are the deepest.
    return Score() * 0.75 + Tanh(reals_.back()) + 0.25 * reals_[reals_.size() - 2];
  }

 private:
  const Expression& AnyReal() { return reals_[random_() % reals_.size()]; }
  const Expression& AnyWhole() { return wholes_[random_() % wholes_.size()]; }
  const Expression& Recent() { return reals_[reals_.size() - 1 - random_() % std::min<std::size_t>(3, reals_.size())]; }

  Expression Whole() {
    const Expression a = AnyWhole(), b = AnyWhole();
    switch (random_() % 9) {
      case 0:
        return Remainder(a + b, 5);
      case 1:
        return FloorDivide(a - b, 3);
      case 2:
        return Min(a, b + 2);
      case 3:
        return Max(-a, b);
      case 4:
        return Abs(a - 3);
      case 6:
        return BitXor(a, BitAnd(b, 6));
      case 7:
        return BitOr(Abs(a), 1);
      case 5:
        return Truncate(Captured(1)(Query()) * 2.0);
      default:
        return Select(a < b, a, b) + 0;
    }
  }

  Expression Truth() {
    const Expression a = AnyWhole(), b = AnyWhole();
    switch (random_() % 5) {
      case 0:
        return a <= b;
      case 1:
        return (a == b) | (a < 3);
      case 2:
        return (!(a != b)) & (b >= 1);
      case 3:
        return Remainder(a, 3) == 1;
      default:
        return a > b;
    }
  }

  Expression Real() {
    const Expression a = Recent(), b = AnyReal();
    switch (random_() % 22) {
      case 0:
        return Tanh(a);
      case 1:
        return Sin(a);
      case 2:
        return Cos(a);
      case 3:
        return Sigmoid(a);
      case 4:
        return Erf(0.5 * a);
      case 5:
        return a / (1 + Abs(b));
      case 6:
        return Exp(Min(a, 0.5));
      case 7:
        return Exp2(Min(a, 0.5));
      case 8:
        return Log1p(Abs(a));
      case 9:
        return Log(Abs(a) + 0.75);
      case 10:
        return Sqrt(Abs(a) + 0.5);
      case 11:
        return Reciprocal(1 + Abs(a));
      case 12:
        return Power(Abs(a) + 0.75, Tanh(b));
      case 13:
        return 0.5 * (a + b);
      case 14:
        return 0.7 * a - 0.3 * b;
      case 15:
        return Tanh(a) * Sigmoid(b);
      case 16:
        return Min(a, b);
      case 17:
        return Max(a, -b);
      case 18:
        return Select(Truth(), a, b);
      case 19:
        return Tanh(0.1 * AnyWhole()) + 0.5 * a;
      case 20:
        return 0.25 * Floor(Captured(2)(Key()) * 4.0) * Tanh(a);
      default:
        return 0.5 * Power(Tanh(a), 2) + Abs(b) * 0.5;
    }
  }

  Random random_;
  std::vector<Expression> reals_, wholes_;
};

// A program by its number, and the extents of the tables that it reads.
struct Described {
  Expression result;
  std::vector<std::array<int64_t, 4>> reals;  // tables of reals, which come first
  std::vector<std::array<int64_t, 4>> wholes;
};

constexpr int kRandomProgram = 15;

Described ScoreOf(int number, uint64_t seed, const Shape& s) {
  const Captured t0(0), t1(1), t2(2);
  const std::array<int64_t, 4> heads{1, 1, 1, s.q_heads};
  switch (number) {
    case 0:
      return {Score() - Abs(t0(Head())) * Log1p(Abs(t1(Head())) * Abs(Offset())), {heads, heads}, {}};
    case 1:
      return {3.0 * Tanh(Score() / 3.0), {}, {}};
    case 2:
      return {Score() + Exp2(-(Head() + 1)) * Offset() / 8, {}, {}};
    case 3:
      return {Score() - Abs(t0(Head())) * Abs(QueryPosition() - KeyPosition()) * 0.01, {heads}, {}};
    case 4:
      return {Score() + t0(Batch(), Head(), Query(), Key()), {{s.batch, s.q_heads, s.q_len, s.kv_len}}, {}};
    case 5:
      return {Score() * Exp(0.3 * t0(Head())) + t1(Batch(), Query()) - t2(Batch(), Head(), Key()),
              {heads, {1, 1, s.batch, s.q_len}, {1, s.batch, s.q_heads, s.kv_len}},
              {}};
    case 6:
      return {
          Score() + 0.2 * Dot({t0, {Query()}}, {t1, {Head(), Key()}}), {{1, 1, s.q_len, 5}, {1, s.q_heads, s.kv_len, 5}}, {}};
    case 7:
      return {Score() + t0(Captured::Whole(1)(Query()), Captured::Whole(2)(Key())) * Cos(Score()),
              {{1, 1, 5, 5}},
              {{1, 1, 1, s.q_len}, {1, 1, 1, s.kv_len}}};
    case 8:
      return {Select(Remainder(Query() + 3 * Key(), 7) == 0, -std::numeric_limits<double>::infinity(), Score()), {}, {}};
    case 9:
      return {Score() + t0(Head(), Max(Min(Offset(), 9), -9) + 9), {{1, 1, s.q_heads, 19}}, {}};
    case 10:
      return {Score() * (1 + 0.1 * t0(Head())) + t0(Remainder(Query() * Key(), std::max<int64_t>(1, s.q_heads))), {heads}, {}};
    case 11:
      return {Log1p(Abs(t0(Head())) * (Key() + 1)), {heads}, {}};
    case 12:
      return {t0(Head()) * Score() * Score() * 0.1 + t0(-1), {heads}, {}};
    case 13:
      return {Max(Score(), 0.1 * Score()) - Sigmoid(Abs(Offset()) * 0.125) * t0(Query()), {{1, 1, 1, s.q_len}}, {}};
    case 14: {
      // Ten operations on the pair.
      const Expression curved = Score() * 0.9 + Score() * Score() * 0.02;
      const Expression near = Min(Max(curved - Abs(Offset()) * 0.01, -8.0), 8.0);
      return {(near + near * t0(Query())) * 1.1, {{1, 1, 1, s.q_len}}, {}};
    }
    default:
      return {RandomProgram(seed).Make(),
              {heads, {1, 1, 1, s.q_len}, {1, 1, 1, s.kv_len}, {1, 1, s.q_heads, 13}},
              {{1, 1, 1, s.kv_len}}};
  }
}

constexpr int kMaskRules = 11;

Described MaskOf(int number, const Shape& s) {
  const auto whole = [](int place) { return Captured::Whole(place); };
  switch (number) {
    case 0:
      return {Query() >= Key(), {}, {}};
    case 1:
      return {Abs(Query() - Key()) <= 17, {}, {}};
    case 2:
      return {whole(0)(Query()) == whole(1)(Key()), {}, {{1, 1, 1, s.q_len}, {1, 1, 1, s.kv_len}}};
    case 3:
      return {(Key() < whole(0)(Batch())) | (Query() >= Key()), {}, {{1, 1, 1, s.batch}}};
    case 4:
      return {whole(0)(Head(), Remainder(Query(), 5), Remainder(Key(), 7)) != 0, {}, {{1, s.q_heads, 5, 7}}};
    case 5:
      return {Remainder(Query() * 3 + Key(), 4) != 1, {}, {}};
    case 6:
      return {Key() < 0, {}, {}};
    case 7:
      return {Key() >= 0, {}, {}};
    case 8:
      return {(Remainder(Offset(), Head() + 1) == 0) & (Key() <= Query()), {}, {}};
    case 9:
      return {KeyPosition() <= QueryPosition(), {}, {}};
    default:
      return {Exp(-Abs(Captured(0)(Query()))) + Captured(1)(Key()) > 0.4, {{1, 1, 1, s.q_len}, {1, 1, 1, s.kv_len}}, {}};
  }
}

template <class A>
std::vector<ProgramTable> TablesOf(const Described& described, bool sorted, RandomTables<A>& tables) {
  std::vector<ProgramTable> made;
  made.reserve(described.reals.size() + described.wholes.size());
  for (const auto& extent : described.reals) made.push_back(tables.Make(extent));
  for (const auto& extent : described.wholes)
    // Sorted like the documents of a row, or in any order.
    made.push_back(tables.MakeWhole(
        extent, [&](int64_t place) { return sorted ? place / 23 : static_cast<int64_t>(tables.random()() % 5); }));
  return made;
}

}  // namespace

int ScorePrograms() { return kRandomProgram; }
int MaskRules() { return kMaskRules; }

template <class A>
void PairProgramReference::Fill(const PairProgramCase& c, const Shape& shape, RandomTables<A>& tables, Attention& attention) {
  if (c.score_program >= 0) {
    const Described score = ScoreOf(c.score_program, c.program_seed, shape);
    attention.score = ProgramScore{ScoreProgram(score.result), TablesOf(score, false, tables)};
  }
  if (c.mask_rule >= 0) {
    const Described rule = MaskOf(c.mask_rule, shape);
    attention.mask_program = ProgramMask{MaskProgram(rule.result), TablesOf(rule, c.mask_rule == 2, tables)};
  }
}

template void PairProgramReference::Fill(const PairProgramCase&, const Shape&, RandomTables<float>&, Attention&);
template void PairProgramReference::Fill(const PairProgramCase&, const Shape&, RandomTables<double>&, Attention&);

bool PairProgramReference::Draw(Case& c, Random& random) {
  const bool score = Chance(random, 2), rule = Chance(random, 2);
  // Their tables are made of the shape; a random mask of many options would leave most rows without keys.
  if (score) c.score_program = static_cast<int>(random() % static_cast<uint64_t>(kRandomProgram + 6));
  if (c.score_program > kRandomProgram) c.score_program = kRandomProgram;
  c.program_seed = random();
  if (rule) c.mask_rule = static_cast<int>(random() % static_cast<uint64_t>(kMaskRules));
  return score || rule;
}

void PairProgramReference::AddCases(CaseTable& table) {
  const auto program = [](int number, uint64_t seed = 0) {
    return [number, seed](Case& c) { c.score_program = number, c.program_seed = seed; };
  };
  const auto rule = [](int number) { return [number](Case& c) { c.mask_rule = number; }; };
  for (int number = 0; number < kRandomProgram; ++number) {
    const std::string name = "score program " + std::to_string(number);
    table.Add(name, {2, 4, 2, 35, 50, 16, 24}, program(number));
    table.Add(name + ", causal, several chunks", {1, 1, 1, 40, 1100, 16, 16}, program(number), causal(Causal::kBottomRight));
  }
  for (int number = 0; number < kMaskRules; ++number) {
    const std::string name = "mask program " + std::to_string(number);
    table.Add(name, {2, 2, 1, 70, 170, 16, 24}, rule(number));
    table.Add(name + ", uniform, dropout", {2, 2, 1, 70, 90, 16, 16}, rule(number), uniform, dropout(0.2));
  }
  for (uint64_t seed = 1; seed <= 12; ++seed)
    table.Add("random score program " + std::to_string(seed), {2, 2, 1, 35, 50, 16, 16}, program(kRandomProgram, seed));
  table.Add("programs, packed", {4, 2, 2, 70, 90, 16, 16}, program(5), rule(0), packed);
  table.Add("programs, packed, causal", {4, 2, 2, 70, 90, 16, 16}, program(3), rule(8), packed, causal(Causal::kBottomRight));
  table.Add("programs, real positions", {2, 2, 2, 70, 90, 16, 16}, program(3), rule(9), positions(PositionKind::kReal));
  table.Add("programs, shuffled positions", {2, 2, 2, 70, 90, 16, 16}, program(3), rule(9), positions(PositionKind::kShuffled));
  table.Add("programs, far offsets", {2, 2, 2, 70, 90, 16, 16}, program(3), rule(9), offsets(1000000000000, 1000000000030));
  table.Add("programs, decoding", {2, 8, 2, 1, 3000, 32, 32}, program(0), rule(1), causal(Causal::kBottomRight));
  table.Add("programs, decoding, heads apart", {2, 6, 2, 3, 2100, 16, 16}, program(5), rule(4));
  table.Add("programs, soft-cap, weights", {2, 2, 2, 70, 90, 16, 16}, program(12), softcap(2.0), weights);
  table.Add("programs, random strides", {2, 4, 2, 40, 90, 20, 16}, program(6), rule(2), layout(Layout::kRandom));
}

void PairProgramReference::AddOptions(std::vector<Option>& options) {
  for (int number = 0; number <= kRandomProgram; ++number)
    options.push_back({"score program " + std::to_string(number), "score",
                       [number](Case& c, Random& random) { c.score_program = number, c.program_seed = random(); }});
  for (int number = 0; number < kMaskRules; ++number)
    options.push_back(
        {"mask program " + std::to_string(number), "mask_program", [number](Case& c, Random&) { c.mask_rule = number; }});
}

void PairProgramReference::AddCosts(std::vector<Cost>& costs) {
  const auto program = [](int number) { return [number](Case& c) { c.score_program = number; }; };
  costs.push_back({"program: by offset (KERPLE)", program(0)});
  costs.push_back({"program: soft-cap", program(1)});
  costs.push_back({"program: ten operations", program(14)});
  costs.push_back({"program: a table of pairs", program(4)});
  costs.push_back({"mask program: all seen", [](Case& c) { c.mask_rule = 7; }});
}

}  // namespace heed::reference
