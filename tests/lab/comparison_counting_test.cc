// Counts and paths of running layers against the closed formulas, and the scalar that counts against cases small enough to be
// counted by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lab/comparison/counting.h"
#include "lab/comparison/formulas.h"
#include "lab/comparison/layers.h"
#include "lab/comparison/reachability.h"

namespace heed::lab {
namespace {

// Weights and inputs of no special values; different ones for different seeds.
std::vector<double> Waves(int64_t size, double seed) {
  std::vector<double> values(size);
  for (int64_t i = 0; i < size; ++i) values[i] = std::sin(0.7 * static_cast<double>(i) + seed);
  return values;
}

LayerWeights<double> WavyWeights(const LayerShape& layer) {
  LayerWeights<double> weights;
  for (const int64_t size : WeightSizes(layer)) weights.push_back(Waves(size, 1.0 + static_cast<double>(weights.size())));
  return weights;
}

LayerNumbers CountAll(const LayerShape& layer, int64_t length) {
  const CountedRun count = CountRun(layer, WavyWeights(layer), Waves(length * layer.width, 0.1));
  return CountedNumbers(layer, count, TraceRun(layer, length));
}

std::string Describe(const LayerShape& layer, int64_t length) {
  return NameOf(layer.kind) + " n=" + std::to_string(length) + " d=" + std::to_string(layer.width) +
         " k=" + std::to_string(layer.kernel) + " heads=" + std::to_string(layer.heads);
}

void ExpectSameNumbers(const LayerShape& layer, int64_t length) {
  const std::vector<NamedNumber> counted = Entries(CountAll(layer, length));
  const std::vector<NamedNumber> expected = Entries(ExpectedNumbers(layer, length));
  ASSERT_EQ(counted.size(), expected.size());
  for (std::size_t i = 0; i < counted.size(); ++i) {
    EXPECT_EQ(counted[i].value, expected[i].value) << counted[i].name << " of " << Describe(layer, length);
  }
}

const std::vector<int64_t> kLengths = {1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65};

TEST(CountedConvolution, EqualsItsFormulas) {
  for (const LayerKind kind : {LayerKind::kCentredConvolution, LayerKind::kCausalConvolution}) {
    for (const int64_t kernel : {1, 2, 3, 4, 5, 7, 9, 31, 64}) {
      if (kind == LayerKind::kCentredConvolution && kernel % 2 == 0) continue;
      for (const int64_t width : {1, 2, 3, 5, 8}) {
        for (const int64_t length : kLengths) ExpectSameNumbers({kind, width, kernel, 1}, length);
      }
    }
  }
}

TEST(CountedRecurrence, EqualsItsFormulas) {
  for (const int64_t width : {1, 2, 3, 4, 5, 8, 13, 16}) {
    for (const int64_t length : kLengths) ExpectSameNumbers({LayerKind::kRecurrence, width, 3, 1}, length);
  }
}

TEST(CountedSelfAttention, EqualsItsFormulas) {
  for (const int64_t heads : {1, 2, 3, 4}) {
    for (const int64_t head_width : {1, 2, 3, 5, 8}) {
      for (const int64_t length : kLengths) {
        ExpectSameNumbers({LayerKind::kSelfAttention, heads * head_width, 3, heads}, length);
      }
    }
  }
}

// The formulas themselves against numbers worked out on paper, so that a slip shared by layer and formula shows.
TEST(Formulas, GiveNumbersWorkedOutByHand) {
  // Five tokens, window of three: 2 + 3 + 3 + 3 + 2 taps, each a 4 x 4 matrix.
  const LayerNumbers centred = ExpectedNumbers({LayerKind::kCentredConvolution, 4, 3, 1}, 5);
  EXPECT_EQ(centred.multiply_adds(), 13 * 16);
  EXPECT_EQ(centred.sequential_steps, 1);
  EXPECT_EQ(centred.path_length, 4);
  EXPECT_EQ(centred.layers_to_connect, 2);
  // 1 + 2 + 3 + 3 + 3 taps.
  const LayerNumbers causal = ExpectedNumbers({LayerKind::kCausalConvolution, 4, 3, 1}, 5);
  EXPECT_EQ(causal.multiply_adds(), 12 * 16);
  EXPECT_EQ(causal.path_length, 2);
  EXPECT_EQ(causal.layers_to_connect, 2);

  const LayerNumbers recurrence = ExpectedNumbers({LayerKind::kRecurrence, 4, 3, 1}, 5);
  EXPECT_EQ(recurrence.multiply_adds(), 2 * 5 * 16);
  EXPECT_EQ(recurrence.sequential_steps, 5);
  EXPECT_EQ(recurrence.span, 5 * (1 + 2 + 1 + 1));  // multiply, two rounds of adding four terms, add, tanh
  EXPECT_EQ(recurrence.path_length, 4);
  EXPECT_EQ(recurrence.layers_to_connect, 1);

  const LayerNumbers attention = ExpectedNumbers({LayerKind::kSelfAttention, 4, 3, 2}, 5);
  EXPECT_EQ(attention.projections.multiply_adds, 4 * 5 * 16);
  EXPECT_EQ(attention.mixing.multiply_adds, 2 * 25 * 4);
  EXPECT_EQ(attention.mixing.exponentials, 2 * 25);
  EXPECT_EQ(attention.mixing.comparisons, 2 * 5 * 4);
  EXPECT_EQ(attention.sequential_steps, 1);
  EXPECT_EQ(attention.path_length, 1);
}

TEST(PathLength, IsThatOfTheTextbook) {
  for (const int64_t length : {2, 3, 5, 8, 16, 33, 100, 257}) {
    for (const int64_t kernel : {3, 5, 7, 21}) {
      const auto hops = [&](LayerKind kind) {
        const LayerShape layer{kind, 1, kernel, 1};
        return Reachability(TraceRun(layer, length).reads).Hops(0, length - 1);
      };
      const double distance = static_cast<double>(length - 1), reach = static_cast<double>(kernel - 1);
      EXPECT_EQ(hops(LayerKind::kCentredConvolution), std::ceil(distance / (reach / 2))) << length << ' ' << kernel;
      EXPECT_EQ(hops(LayerKind::kCausalConvolution), std::ceil(distance / reach)) << length << ' ' << kernel;
      EXPECT_EQ(hops(LayerKind::kRecurrence), length - 1);
      EXPECT_EQ(hops(LayerKind::kSelfAttention), 1);
    }
  }
}

TEST(PathLength, IsNeverForAWindowOfOne) {
  const LayerNumbers numbers = CountAll({LayerKind::kCentredConvolution, 2, 1, 1}, 6);
  EXPECT_EQ(numbers.path_length, kNever);
  EXPECT_EQ(numbers.longest_path, kNever);
  EXPECT_EQ(numbers.layers_to_connect, kNever);
}

TEST(TraceRun, OpensTheRecurrenceToItsCell) {
  const TracedRun run = TraceRun({LayerKind::kRecurrence, 8, 3, 1}, 6);
  for (int64_t to = 0; to < 6; ++to) {
    for (int64_t from = 0; from < 6; ++from) {
      EXPECT_EQ(run.reads.Get(to, from), from == to || from == to - 1) << to << ' ' << from;
      EXPECT_EQ(run.receptive.Get(to, from), from <= to) << to << ' ' << from;
    }
  }
}

TEST(Instrumented, ComputesTheValuesOfTheSameLayerOnDoubles) {
  for (const LayerKind kind : kAllLayers) {
    const LayerShape layer{kind, 6, 3, 2};
    const std::vector<double> x = Waves(9 * 6, 0.3);
    // The same operations in the same order: the same bits.
    EXPECT_EQ(CountRun(layer, WavyWeights(layer), x).values, RunLayer(layer, WavyWeights(layer), x)) << NameOf(kind);
  }
}

TEST(Instrumented, CountsEachKindApart) {
  const Recording recording;
  const Counted a = 2.0, b = 3.0, c = 5.0;
  const Counted result = Exp((a + b) * c / (a - b));
  EXPECT_EQ(result.value(), std::exp(-25.0));
  EXPECT_EQ(recording.Of(Stage::kMixing),
            (Operations{.multiplications = 1, .additions = 2, .divisions = 1, .exponentials = 1}));
  EXPECT_EQ(recording.Of(Stage::kProjections), Operations{});
  EXPECT_EQ(result.depth(), (Depth{.steps = 0, .rounds = 4, .span = 4}));
}

TEST(Instrumented, TakesReductionsAsOneRoundAndALogarithmicSpan) {
  const Recording recording;
  const std::vector<Counted> terms(5, Counted(1.0));
  EXPECT_EQ(Dot(terms.data(), 1, terms.data(), 1, 5).depth(), (Depth{.steps = 0, .rounds = 1, .span = 4}));
  EXPECT_EQ(Sum(std::span<const Counted>(terms)).depth(), (Depth{.steps = 0, .rounds = 1, .span = 3}));
  EXPECT_EQ(Max(std::span<const Counted>(terms).first(1)).depth(), Depth{});
  EXPECT_EQ(recording.Of(Stage::kMixing), (Operations{.multiply_adds = 5, .additions = 4}));
}

TEST(Instrumented, KeepsRecordingsApart) {
  const Recording outer;
  const Counted a = 2.0;
  (void)(a + a);
  {
    const Recording inner;
    (void)(a * a);
    EXPECT_EQ(inner.Of(Stage::kMixing), Operations{.multiplications = 1});
  }
  EXPECT_EQ(outer.Of(Stage::kMixing), Operations{.additions = 1});
}

TEST(Instrumented, SeesDependenceWhereTheValueIsZero) {
  const Traced x = Traced::Input(0.0, 3), y = Traced::Input(1.0, 70);
  const Traced product = x * y;
  EXPECT_TRUE(product.origin().inputs.Contains(3));
  EXPECT_TRUE(product.origin().inputs.Contains(70));
  EXPECT_FALSE(product.origin().inputs.Contains(4));
  EXPECT_FALSE(x.origin().inputs.Contains(70));  // operands are left as they were
}

// Hops by breadth-first search, which shares nothing with matrix powers.
std::map<int64_t, int64_t> HopsBySearch(const BitMatrix& pattern, int64_t from) {
  std::map<int64_t, int64_t> hops = {{from, 0}};
  std::vector<int64_t> queue = {from};
  for (std::size_t next = 0; next < queue.size(); ++next) {
    for (int64_t to = 0; to < pattern.size(); ++to) {
      if (pattern.Get(to, queue[next]) && hops.emplace(to, hops[queue[next]] + 1).second) queue.push_back(to);
    }
  }
  return hops;
}

TEST(Reachability, AgreesWithBreadthFirstSearchOnScatteredPatterns) {
  uint64_t state = 7;
  const auto random = [&state](uint64_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int64_t>((state >> 33) % below);
  };
  for (const int64_t size : {1, 2, 5, 63, 64, 65, 130}) {
    BitMatrix pattern(size);
    for (int64_t edge = 0; edge < size + size / 2; ++edge) pattern.Set(random(size), random(size));
    const Reachability reachability(pattern);
    for (int64_t from = 0; from < size; from += 1 + size / 8) {
      const std::map<int64_t, int64_t> expected = HopsBySearch(pattern, from);
      for (int64_t to = 0; to < size; to += 1 + size / 16) {
        const auto found = expected.find(to);
        EXPECT_EQ(reachability.Hops(from, to), found == expected.end() ? kNever : found->second) << from << "->" << to;
      }
    }
  }
}

TEST(Reachability, AsksOnlyForEarlierPositionsWhenCausal) {
  BitMatrix chain(4);  // each reads the one before
  for (int64_t i = 1; i < 4; ++i) chain.Set(i, i - 1);
  const Reachability reachability(chain);
  EXPECT_EQ(reachability.LongestPath(/*causal=*/true), 3);
  EXPECT_EQ(reachability.LongestPath(/*causal=*/false), kNever);
  EXPECT_EQ(reachability.UntilSeenTogether(0, 3), 3);
  EXPECT_EQ(reachability.UntilSeenTogether(2, 3), 1);
}

TEST(LargestDifference, CatchesAWrongFormula) {
  const LayerShape layer{LayerKind::kCentredConvolution, 4, 3, 1};
  const LayerNumbers counted = CountAll(layer, 9);
  EXPECT_EQ(LargestDifference(counted, ExpectedNumbers(layer, 9)), 0);

  LayerNumbers padding_counted = ExpectedNumbers(layer, 9);
  padding_counted.mixing.multiply_adds = 3 * 4 * 4 * 9;  // k d^2 n: the two taps beyond the ends, 4 x 4 each
  EXPECT_EQ(LargestDifference(counted, padding_counted), 2 * 16);

  LayerNumbers causal_path = ExpectedNumbers(layer, 9);
  causal_path.path_length = 4;  // of the causal convolution
  EXPECT_EQ(LargestDifference(counted, causal_path), 4);
}

}  // namespace
}  // namespace heed::lab
