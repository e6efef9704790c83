// What interval arithmetic says of blocks of pairs: never wrong, and seldom less than could be said.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "heed/attention.h"
#include "heed/score_program.h"
#include "position/pair_program/sight.h"
#include "problem.h"

namespace heed {
namespace {

using namespace program;
using attention::PairBlock, attention::Seen;
using position::PairProgramSight;

constexpr Shape kShape{2, 3, 3, 90, 110, 8, 8};

// Rules over all operations, and the tables that they read.
class RandomRule {
 public:
  explicit RandomRule(uint64_t seed) : random_(seed) {
    const auto fill = [&](int64_t size, int64_t limit) {
      std::vector<int64_t> numbers(static_cast<std::size_t>(size));
      for (int64_t& number : numbers) number = Whole(limit) - limit / 4;
      if (random_() % 2 == 0) std::sort(numbers.begin(), numbers.end());
      return numbers;
    };
    wholes_ = {fill(kShape.q_len, 12), fill(kShape.kv_len, 12), fill(kShape.q_heads * 10, 40)};
    const float infinity = std::numeric_limits<float>::infinity(), odd[] = {std::nanf(""), infinity, -infinity};
    const bool infinite = random_() % 8 == 0;
    for (int64_t x = 0; x < kShape.kv_len; ++x)
      reals_.push_back(infinite || random_() % 40 == 0 ? odd[infinite ? 2 : random_() % 3]
                                                       : static_cast<float>(Whole(100)) / 17 - 2);
  }

  MaskProgram Make() { return MaskProgram(Truth(4)); }
  std::vector<ProgramTable> Tables() const {
    const auto row = [](const std::vector<int64_t>& numbers, int64_t rows) {
      const auto size = static_cast<int64_t>(numbers.size());
      return View<const int64_t, 4>::Contiguous(numbers.data(), {1, 1, rows, size / rows});
    };
    return {row(wholes_[0], 1), row(wholes_[1], 1), row(wholes_[2], kShape.q_heads),
            View<const float, 4>::Contiguous(reals_.data(), {1, 1, 1, kShape.kv_len})};
  }

 private:
  int64_t Whole(int64_t limit) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(limit)); }

  Expression Number(int depth) {
    if (depth == 0) return Leaf();
    Expression a = Number(depth - 1), b = Number(depth - 1);
    switch (random_() % 18) {
      case 0:
        return a + b;
      case 1:
        return a - b;
      case 2:
        return a * Whole(5);
      case 3:
        return FloorDivide(a, Whole(9) - 4);
      case 4:
        return Remainder(a, Whole(20) - 4);
      case 5:
        return Min(a, b);
      case 6:
        return Max(a, -b);
      case 7:
        return Abs(a);
      case 8:
        return Select(Truth(depth - 1), a, b);
      case 9:
        return BitXor(a, Whole(8));
      case 10:
        return Truncate(a / (Whole(5) + 1));
      case 11:
        return Truncate(Floor(3.0 * Sin(a)));
      case 12:
        return Truncate(4.0 * Tanh(a / 20.0) + Sqrt(Abs(b)));
      case 13:
        return Captured::Whole(2)(Head(), Remainder(a, 10));
      case 14:
        return Truncate(Exp(a / 30.0)) + FloorDivide(a, b);
      case 15:
        return Truncate(Reciprocal(a) * 30.0 + Log1p(b) + Erf(a));
      case 16:
        return a * b;
      default:
        return a;
    }
  }

  Expression Leaf() {
    switch (random_() % 9) {
      case 0:
        return Query();
      case 1:
        return Key();
      case 2:
        return Query() - Key();
      case 3:
        return Head() * 20 + Batch();
      case 4:
        return Captured::Whole(0)(Query());
      case 5:
        return Captured::Whole(1)(Key());
      case 6:
        return Captured::Whole(1)(Key() + Whole(7) - 3);  // may leave the table
      case 7:
        return Truncate(Captured(3)(Key()) * 3.0);
      default:
        return Whole(100);
    }
  }

  Expression Truth(int depth) {
    const Expression a = Number(depth > 1 ? 2 : 1), b = Number(1);
    if (depth > 0) switch (random_() % 6) {
        case 0:
          return Truth(depth - 1) & Truth(depth - 1);
        case 1:
          return Truth(depth - 1) | Truth(depth - 1);
        case 2:
          return !Truth(depth - 1);
        default:
          break;
      }
    switch (random_() % 6) {
      case 0:
        return a < b;
      case 5:
        return Abs(a * Captured(3)(Key())) >= 0;
      case 1:
        return a <= b;
      case 2:
        return a == b;
      case 3:
        return a != b;
      default:
        return a / 7.0 > b * 0.3;
    }
  }

  std::mt19937_64 random_;
  std::vector<std::vector<int64_t>> wholes_;
  std::vector<float> reals_;
};

// How many of a block's pairs are seen, one by one.
Seen OneByOne(const PairProgramSight& sight, const PairBlock& block) {
  int64_t seen = 0, all = 0;
  for (int64_t h = block.heads.begin; h < block.heads.end; ++h)
    for (int64_t i = block.queries.begin; i < block.queries.end; ++i)
      for (int64_t j = block.keys.begin; j < block.keys.end; ++j, ++all) seen += !sight.Hidden(block.b, h, i, j);
  return seen == 0 ? Seen::kNone : seen == all ? Seen::kAll : Seen::kSome;
}

TEST(MaskPrograms, AreJudgedAsTheirPairsAre) {
  int judged = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    RandomRule rule(seed);
    Attention attention;
    attention.mask_program = ProgramMask{rule.Make(), rule.Tables()};
    const PairProgramSight sight(attention, kShape);
    std::mt19937_64 random(seed);
    const auto range = [&](int64_t limit, int64_t most) {
      const auto begin = static_cast<int64_t>(random() % static_cast<uint64_t>(limit));
      return attention::KeyRange{begin,
                                 std::min(limit, begin + 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(most)))};
    };
    for (int block = 0; block < 30; ++block) {
      const PairBlock pairs{static_cast<int64_t>(random() % 2), range(kShape.q_heads, 3), range(kShape.q_len, 20),
                            range(kShape.kv_len, 20)};
      const Seen said = sight.Judge(pairs);
      if (said == Seen::kSome) continue;
      ++judged;
      EXPECT_EQ(said, OneByOne(sight, pairs))
          << "rule " << seed << ", block " << block << ": " << attention.mask_program->program.Text();
    }
  }
  EXPECT_GT(judged, 5000);
}

// Of the tiles in which nothing is seen, the part that is known to be empty.
double PartSkipped(const Expression& rule, const std::vector<int64_t>& documents) {
  constexpr int64_t kLength = 1024, kTile = 64;
  Attention attention;
  attention.mask_program =
      ProgramMask{MaskProgram(rule), {View<const int64_t, 4>::Contiguous(documents.data(), {1, 1, 1, kLength})}};
  const PairProgramSight sight(attention, {1, 1, 1, kLength, kLength, 8, 8});
  int64_t empty = 0, skipped = 0;
  for (int64_t i = 0; i < kLength; i += kTile)
    for (int64_t j = 0; j < kLength; j += kTile) {
      const PairBlock pairs{0, {0, 1}, {i, i + kTile}, {j, j + kTile}};
      if (OneByOne(sight, pairs) != Seen::kNone) continue;
      ++empty;
      skipped += sight.Judge(pairs) == Seen::kNone;
    }
  EXPECT_GT(empty, 0);
  return static_cast<double>(skipped) / static_cast<double>(empty);
}

TEST(MaskPrograms, SkipWhatIsEmpty) {
  std::vector<int64_t> documents;
  for (int64_t token = 0; token < 1024; ++token) documents.push_back(token / 100);
  const Captured document = Captured::Whole(0);
  const Expression causal = Key() <= Query(), window = Abs(Query() - Key()) < 90, prefix = Key() < 50,
                   same = document(Query()) == document(Key());
  EXPECT_GE(PartSkipped(causal, documents), 0.95);
  EXPECT_GE(PartSkipped(window, documents), 0.95);
  EXPECT_GE(PartSkipped(causal | prefix, documents), 0.95);
  EXPECT_GE(PartSkipped(same, documents), 0.95);
  EXPECT_GE(PartSkipped(causal & window, documents), 0.95);
  EXPECT_GE(PartSkipped(same & causal, documents), 0.95);
  EXPECT_GE(PartSkipped(same & window & causal, documents), 0.95);
  EXPECT_GE(PartSkipped(same & (causal | prefix), documents), 0.95);
  EXPECT_GE(PartSkipped((FloorDivide(Query(), 128) == FloorDivide(Key(), 128)) | prefix, documents), 0.95);
}

}  // namespace
}  // namespace heed
