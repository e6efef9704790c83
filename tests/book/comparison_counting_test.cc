// Counts and paths of running layers against the closed formulas, and the scalar that counts against cases small enough to be
// counted by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "book/comparison/counting.h"
#include "book/comparison/layer.h"
#include "tests/lab/waves.h"

namespace heed::lab {
namespace {

LayerNumbers Count(const Layer& layer, const LayerShape& shape, int64_t length) {
  LayerWeights weights;
  for (const int64_t size : layer.WeightSizes(shape)) {
    const std::vector<double> waves = Waves(size, 1.0 + static_cast<double>(weights.size()));
    weights.emplace_back(waves.begin(), waves.end());
  }
  return CountAll(layer, shape, weights, Waves(length * shape.width, 0.1)).numbers;
}

std::string Describe(const Layer& layer, const LayerShape& shape, int64_t length) {
  return layer.name() + " n=" + std::to_string(length) + " d=" + std::to_string(shape.width) +
         " k=" + std::to_string(shape.kernel) + " heads=" + std::to_string(shape.heads) + " w=" + std::to_string(shape.window) +
         " level=" + std::to_string(shape.level);
}

void ExpectSameNumbers(const Layer& layer, const LayerShape& shape, int64_t length) {
  const std::vector<NamedNumber> counted = Entries(Count(layer, shape, length));
  const std::vector<NamedNumber> expected = Entries(layer.Expected(shape, length));
  ASSERT_EQ(counted.size(), expected.size());
  for (std::size_t i = 0; i < counted.size(); ++i) {
    EXPECT_EQ(counted[i].value, expected[i].value) << counted[i].name << " of " << Describe(layer, shape, length);
  }
}

const std::vector<int64_t> kLengths = {1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65};

// Every size that the layer's cost depends on, edges included.
void ForShapes(const Layer& layer, const std::function<void(const LayerShape&)>& visit) {
  const LayerFacts& facts = layer.facts();
  const std::set<int64_t> kernels = facts.reach != Reach::kKernel ? std::set<int64_t>{3}
                                    : facts.causal                ? std::set<int64_t>{1, 2, 3, 4, 5, 9, 64}
                                                                  : std::set<int64_t>{1, 3, 5, 9, 31};
  const std::set<int64_t> windows = facts.reach == Reach::kWindow ? std::set<int64_t>{0, 1, 2, 7, 100} : std::set<int64_t>{8};
  const std::set<int64_t> levels = facts.changes_with_level ? std::set<int64_t>{0, 1, 2, 3, 60} : std::set<int64_t>{0};
  const std::set<std::string> with_heads = {"attention",    "attention-causal", "attention-window", "self-attentive",
                                            "decomposable", "linear",           "linear-chunked",   "retention",
                                            "mamba2",       "gated-delta"};
  const std::set<int64_t> heads = with_heads.contains(facts.id) ? std::set<int64_t>{1, 2, 3} : std::set<int64_t>{1};
  for (const int64_t kernel : kernels) {
    for (const int64_t window : windows) {
      for (const int64_t level : levels) {
        for (const int64_t head_count : heads) {
          for (const int64_t channels : {1, 2, 3, 5}) {
            visit({.width = channels * head_count, .kernel = kernel, .heads = head_count, .window = window, .level = level});
          }
        }
      }
    }
  }
}

TEST(CountedLayers, EqualTheirFormulas) {
  for (const Layer* layer : AllLayers()) {
    ForShapes(*layer, [&](const LayerShape& shape) {
      for (const int64_t length : kLengths) ExpectSameNumbers(*layer, shape, length);
    });
  }
}

// Beyond one chunk.
TEST(CountedLayers, EqualTheirFormulasChunkByChunk) {
  for (const int64_t length : {127, 128, 129, 200}) {
    ExpectSameNumbers(LayerNamed("linear-chunked"), {.width = 6, .heads = 2}, length);
  }
}

// The formulas themselves against numbers worked out on paper, so that a slip shared by layer and formula shows.
TEST(Formulas, OfConvolutionsGiveNumbersWorkedOutByHand) {
  // Five tokens, window of three: 2 + 3 + 3 + 3 + 2 taps, each a 4 x 4 matrix.
  const LayerShape shape{.width = 4, .kernel = 3};
  const LayerNumbers centred = LayerNamed("convolution").Expected(shape, 5);
  EXPECT_EQ(centred.multiply_adds(), 13 * 16);
  EXPECT_EQ(centred.sequential_steps, 1);
  EXPECT_EQ(centred.memory, 5 * 4);
  EXPECT_EQ(centred.path_length, 4);
  EXPECT_EQ(centred.layers_to_connect, 2);
  // 1 + 2 + 3 + 3 + 3 taps.
  const LayerNumbers causal = LayerNamed("convolution-causal").Expected(shape, 5);
  EXPECT_EQ(causal.multiply_adds(), 12 * 16);
  EXPECT_EQ(causal.path_length, 2);
  EXPECT_EQ(causal.layers_to_connect, 2);
  // Dilated by three: 1 + 1 + 1 + 2 + 2 taps before and at, and as many after.
  const LayerShape second{.width = 4, .kernel = 3, .level = 1};
  EXPECT_EQ(LayerNamed("dilated-causal").Expected(second, 5).multiply_adds(), 7 * 16);
  EXPECT_EQ(LayerNamed("dilated").Expected(second, 5).multiply_adds(), 9 * 16);
  EXPECT_EQ(LayerNamed("dilated-causal").Expected(second, 10).path_length, 3);  // 9 = 1 * 9, the third layer
}

TEST(Formulas, OfRecurrencesGiveNumbersWorkedOutByHand) {
  const LayerShape shape{.width = 4};
  const LayerNumbers rnn = LayerNamed("rnn").Expected(shape, 5);
  EXPECT_EQ(rnn.Of(Term::kProjections), 5 * 16);
  EXPECT_EQ(rnn.Of(Term::kRecurrence), 5 * 16);
  EXPECT_EQ(rnn.sequential_steps, 5);
  EXPECT_EQ(rnn.span, 5 * (1 + 2 + 1 + 1));  // multiply, two rounds of adding four terms, add, tanh
  EXPECT_EQ(rnn.path_length, 4);
  EXPECT_EQ(rnn.layers_to_connect, 1);
  EXPECT_EQ(LayerNamed("gru").Expected(shape, 5).multiply_adds(), 6 * 5 * 16 + 2 * 5 * 4);
  const LayerNumbers lstm = LayerNamed("lstm").Expected(shape, 5);
  EXPECT_EQ(lstm.multiply_adds(), 8 * 5 * 16 + 5 * 4);
  EXPECT_EQ(lstm.operations.hyperbolic_tangents, 2 * 5 * 4);
  EXPECT_EQ(lstm.memory, 5 * 4 + 4);
  const LayerNumbers linear = LayerNamed("linear-recurrence").Expected(shape, 5);
  EXPECT_EQ(linear.Of(Term::kRecurrence), 4 * 4);
  EXPECT_EQ(linear.sequential_steps, 5);
  // Five tokens in three doublings: 4 + 3 + 1 pairs; the decays of 3 + 1 of them are needed again.
  const LayerNumbers scan = LayerNamed("linear-recurrence-scan").Expected(shape, 5);
  EXPECT_EQ(scan.Of(Term::kRecurrence), 8 * 4);
  EXPECT_EQ(scan.operations.multiplications, (5 + 4) * 4);
  EXPECT_EQ(scan.sequential_steps, 3);
  EXPECT_EQ(scan.path_length, 1);   // 4 is one hop of four
  EXPECT_EQ(scan.longest_path, 2);  // 3 = 1 + 2
}

TEST(Formulas, OfLinearAttentionGiveNumbersWorkedOutByHand) {
  const LayerShape shape{.width = 4, .heads = 2};  // two states of 2 x 2
  const LayerNumbers linear = LayerNamed("linear").Expected(shape, 5);
  EXPECT_EQ(linear.Of(Term::kProjections), 4 * 5 * 16);
  EXPECT_EQ(linear.Of(Term::kRecurrence), 2 * 5 * 8);  // written and read
  EXPECT_EQ(linear.Of(Term::kElementwise), 5 * 4);     // q . z
  EXPECT_EQ(linear.operations.divisions, 5 * 4);
  EXPECT_EQ(linear.sequential_steps, 5);
  EXPECT_EQ(linear.memory, 5 * 4 + 8 + 4 + 3 * 4 + 4);  // y, S, z, a step's v, k and q, its heads' y
  EXPECT_EQ(linear.path_length, 4);
  const LayerNumbers retention = LayerNamed("retention").Expected(shape, 5);
  EXPECT_EQ(retention.Of(Term::kProjections), 5 * 5 * 16);
  // A step: four rotations of four, k's scale, k v^T, silu, the norms' factors, both products of the norm, the gate.
  EXPECT_EQ(retention.operations.multiplications, 5 * (4 * 4 + 4 + 8 + 4 + 2 + 4 + 4 + 4));
  // Two states of 4 x 4, two heads that share k and q.
  const LayerNumbers mamba = LayerNamed("mamba2").Expected(shape, 5);
  EXPECT_EQ(mamba.Of(Term::kProjections), 5 * 4 * (8 + 8 + 4 + 4) + 5 * 8 * 4);
  EXPECT_EQ(mamba.Of(Term::kRecurrence), 2 * 5 * 32);
  EXPECT_EQ(mamba.Of(Term::kConvolution), (1 + 2 + 3 + 4 + 4) * 16);
  EXPECT_EQ(mamba.Of(Term::kElementwise), 5 * (2 * 4 + 8 + 8));  // a, D, norm
  EXPECT_EQ(mamba.operations.softpluses, 5 * 2);
  EXPECT_EQ(mamba.operations.inverse_roots, 5);
  EXPECT_EQ(mamba.path_length, 2);  // four steps by a convolution that reaches three back
  const LayerNumbers delta = LayerNamed("gated-delta").Expected(shape, 5);
  EXPECT_EQ(delta.Of(Term::kRecurrence), 3 * 5 * 8);                     // asked, written and read
  EXPECT_EQ(delta.Of(Term::kElementwise), 5 * (2 * 2 * 4 + 2 * 4 + 4));  // a and b, lengths of k and q, norm
  EXPECT_EQ(delta.operations.inverse_roots, 5 * (4 + 2));
  // k: a product of four, one tap, silu (2), its length (6), and then turns of S: decay, S k (2), v - S k, beta, a multiply-add
  // (2). The first turn has its decay before k. Then S q (2), the norm (6 and a product), the gate, a product of four.
  EXPECT_EQ(delta.span, (3 + 1 + 2 + 6) + (5 * 7 - 1) + 2 + 7 + 1 + 3);
  // Two whole chunks of 64 and two steps.
  const LayerNumbers chunks = LayerNamed("linear-chunked").Expected(shape, 130);
  EXPECT_EQ(chunks.Of(Term::kScores), (2 * 64 * 65 / 2 + 3) * 4);
  EXPECT_EQ(chunks.Of(Term::kRecurrence), 2 * 130 * 8);
  EXPECT_EQ(chunks.sequential_steps, 3);
  EXPECT_EQ(chunks.path_length, 3);  // 0, 63, 127, 129
}

TEST(Formulas, OfAttentionGiveNumbersWorkedOutByHand) {
  const LayerShape shape{.width = 4, .heads = 2, .window = 1};
  const LayerNumbers attention = LayerNamed("attention").Expected(shape, 5);
  EXPECT_EQ(attention.Of(Term::kProjections), 4 * 5 * 16);
  EXPECT_EQ(attention.Of(Term::kScores), 25 * 4);
  EXPECT_EQ(attention.Of(Term::kSums), 25 * 4);
  EXPECT_EQ(attention.operations.exponentials, 2 * 25);
  EXPECT_EQ(attention.operations.comparisons, 2 * 5 * 4);
  EXPECT_EQ(attention.sequential_steps, 1);
  EXPECT_EQ(attention.memory, 4 * 5 * 4 + 5);
  EXPECT_EQ(attention.path_length, 1);
  EXPECT_EQ(LayerNamed("attention-causal").Expected(shape, 5).Of(Term::kScores), 15 * 4);
  const LayerNumbers window = LayerNamed("attention-window").Expected(shape, 5);
  EXPECT_EQ(window.Of(Term::kScores), 13 * 4);  // 2 + 3 + 3 + 3 + 2 keys
  EXPECT_EQ(window.path_length, 4);
}

// Of the layers' dependency graph, found by running them.
int64_t MeasuredHops(const std::string& layer, const LayerShape& shape, int64_t length) {
  return TracePaths(LayerNamed(layer), shape, length).hops.Hops(0, length - 1);
}

TEST(PathLength, IsThatOfTheTextbook) {
  for (const int64_t n : {2, 3, 5, 8, 16, 27, 28, 33, 100, 257}) {
    const auto distance = static_cast<double>(n - 1);
    for (const int64_t k : {3, 5, 7, 21}) {
      const LayerShape shape{.kernel = k};
      const auto reach = static_cast<double>(k - 1);
      EXPECT_EQ(MeasuredHops("convolution", shape, n), std::ceil(distance / (reach / 2))) << n << ' ' << k;
      EXPECT_EQ(MeasuredHops("convolution-causal", shape, n), std::ceil(distance / reach)) << n << ' ' << k;
      int64_t logarithm = 0;
      for (int64_t power = 1; power < n; power *= k) ++logarithm;
      EXPECT_EQ(MeasuredHops("dilated-causal", shape, n), logarithm) << n << ' ' << k;
    }
    for (const int64_t w : {1, 2, 7, 300}) {
      EXPECT_EQ(MeasuredHops("attention-window", {.window = w}, n), std::ceil(distance / static_cast<double>(w))) << n;
    }
    for (const char* recurrent : {"rnn", "gru", "lstm", "linear-recurrence", "linear", "retention"}) {
      EXPECT_EQ(MeasuredHops(recurrent, {}, n), n - 1);
    }
    for (const char* direct : {"attention", "attention-causal"}) EXPECT_EQ(MeasuredHops(direct, {}, n), 1);
  }
}

// Layer after layer, positions that `from` has reached, by the definition of a dilated convolution alone.
int64_t DilatedHops(int64_t from, int64_t to, int64_t length, int64_t kernel, bool causal) {
  const int64_t first = causal ? 0 : -(kernel - 1) / 2;
  std::set<int64_t> reached = {from};
  for (int64_t layer = 0, dilation = 1; dilation < length * kernel; ++layer, dilation *= kernel) {
    if (reached.contains(to)) return layer;
    std::set<int64_t> next;
    for (const int64_t position : reached) {
      for (int64_t digit = first; digit < first + kernel; ++digit) {
        const int64_t there = position + digit * dilation;
        if (there >= 0 && there < length) next.insert(there);
      }
    }
    reached = next;
  }
  return reached.contains(to) ? 99 : kNever;
}

TEST(PathLength, OfADilatedStackIsFoundPairByPair) {
  for (const bool causal : {false, true}) {
    const Layer& layer = LayerNamed(causal ? "dilated-causal" : "dilated");
    for (const int64_t kernel : {3, 5}) {
      for (int64_t length = 1; length <= 40; ++length) {
        const Reachability hops = TracePaths(layer, {.kernel = kernel}, length).hops;
        for (int64_t to = 0; to < length; to += 3) {
          EXPECT_EQ(hops.Hops(0, to), DilatedHops(0, to, length, kernel, causal)) << length << ' ' << kernel << ' ' << to;
        }
        EXPECT_EQ(layer.Expected({.kernel = kernel}, length).path_length, DilatedHops(0, length - 1, length, kernel, causal));
      }
    }
  }
}

TEST(PathLength, IsNeverForAWindowOfOne) {
  for (const char* layer : {"convolution", "convolution-causal", "dilated", "dilated-causal"}) {
    const LayerNumbers numbers = Count(LayerNamed(layer), {.width = 2, .kernel = 1}, 6);
    EXPECT_EQ(numbers.path_length, kNever);
    EXPECT_EQ(numbers.longest_path, kNever);
    EXPECT_EQ(numbers.layers_to_connect, kNever);
  }
}

TEST(TraceRun, OpensRecurrencesToTheirCells) {
  for (const char* layer : {"rnn", "gru", "lstm", "linear-recurrence", "linear", "retention"}) {
    const TracedRun run = TraceRun(LayerNamed(layer), {.width = 8}, 6);
    for (int64_t to = 0; to < 6; ++to) {
      for (int64_t from = 0; from < 6; ++from) {
        EXPECT_EQ(run.reads[from][to], from == to || from == to - 1) << layer << ' ' << to << ' ' << from;
        EXPECT_EQ(run.receptive[from][to], from <= to) << layer << ' ' << to << ' ' << from;
      }
    }
  }
}

TEST(TraceRun, SeesPowersOfTwoInAScan) {
  const TracedRun run = TraceRun(LayerNamed("linear-recurrence-scan"), {}, 20);
  for (int64_t to = 0; to < 20; ++to) {
    for (int64_t from = 0; from < 20; ++from) {
      const std::set<int64_t> distances = {0, 1, 2, 4, 8, 16};
      EXPECT_EQ(run.reads[from][to], distances.contains(to - from)) << to << ' ' << from;
      EXPECT_EQ(run.receptive[from][to], from <= to) << to << ' ' << from;
    }
  }
}

TEST(TraceRun, SeesTheConvolutionBeforeAState) {
  for (const char* layer : {"mamba2", "gated-delta"}) {
    const TracedRun run = TraceRun(LayerNamed(layer), {.width = 8}, 9);
    for (int64_t to = 0; to < 9; ++to) {
      for (int64_t from = 0; from < 9; ++from) {
        EXPECT_EQ(run.reads[from][to], from <= to && from >= to - 3) << layer << ' ' << to << ' ' << from;
        EXPECT_EQ(run.receptive[from][to], from <= to) << layer << ' ' << to << ' ' << from;
      }
    }
  }
}

TEST(TraceRun, SeesAChunkAndTheStateBeforeIt) {
  const TracedRun run = TraceRun(LayerNamed("linear-chunked"), {}, 140);
  for (int64_t to = 0; to < 140; ++to) {
    for (int64_t from = 0; from < 140; ++from) {
      const int64_t first = to / 64 * 64;
      EXPECT_EQ(run.reads[from][to], from <= to && from >= first - 1) << to << ' ' << from;
      EXPECT_EQ(run.receptive[from][to], from <= to) << to << ' ' << from;
    }
  }
}

TEST(Counted, CountsEachKindApart) {
  const Recording recording;
  const Counted a = 2.0, b = 3.0, c = 5.0;
  const Counted result = Exp((a + b) * c / (a - b));
  EXPECT_EQ(result.value(), std::exp(-25.0));
  EXPECT_EQ(recording.tally().operations,
            (Operations{.multiplications = 1, .additions = 2, .divisions = 1, .exponentials = 1}));
  EXPECT_EQ(recording.tally().products, Products{});
  EXPECT_EQ(result.depth(), (Depth{.steps = 0, .rounds = 4, .span = 4}));
}

TEST(Counted, TakesReductionsAsOneRoundAndALogarithmicSpan) {
  const Recording recording;
  const std::vector<Counted> terms(5, Counted(1.0));
  const Operand operand(terms.data());
  EXPECT_EQ(Dot(Term::kScores, operand, operand, 5).depth(), (Depth{.steps = 0, .rounds = 1, .span = 4}));
  EXPECT_EQ(MultiplyAdd(Term::kElementwise, terms[0], terms[1], terms[2]).depth(), (Depth{.steps = 0, .rounds = 1, .span = 2}));
  EXPECT_EQ(Sum(std::span<const Counted>(terms)).depth(), (Depth{.steps = 0, .rounds = 1, .span = 3}));
  EXPECT_EQ(Max(std::span<const Counted>(terms).first(1)).depth(), Depth{});
  EXPECT_EQ(recording.tally().operations, (Operations{.additions = 4}));
  EXPECT_EQ(recording.tally().products, (Products{0, 0, 0, 5, 0, 1}));
}

TEST(Counted, KeepsRecordingsApart) {
  const Recording outer;
  const Counted a = 2.0;
  (void)(a + a);
  {
    const Recording inner;
    (void)(a * a);
    EXPECT_EQ(inner.tally().operations, Operations{.multiplications = 1});
  }
  EXPECT_EQ(outer.tally().operations, Operations{.additions = 1});
}

TEST(Counted, TakesAnInnerProductOverRowsThatLieApart) {
  const std::vector<double> a = {1, 2, 3, 4}, b = {1, 10, 0, 0, 100, 1000};
  const std::vector<Counted> c(a.begin(), a.end()), d(b.begin(), b.end());
  EXPECT_EQ(Dot(Term::kConvolution, Operand(c.data(), 1, 2), Operand(d.data(), 1, 4), 2, 2).value(), 1 + 20 + 300 + 4000);
  EXPECT_EQ(Dot(Term::kSums, Operand(c.data(), 2), Operand(d.data(), 4), 2).value(), 1 + 300);
}

TEST(Activations, AreHeldUntilTheyEnd) {
  const Recording recording;
  {
    const Activations first(10);
    { const Activations second(5); }
    EXPECT_EQ(recording.tally().held, 10);
    const Activations third(3);
  }
  EXPECT_EQ(recording.tally().held, 0);
  EXPECT_EQ(recording.tally().peak, 15);
}

TEST(Counted, SeesDependenceWhereTheValueIsZero) {
  std::vector<Positions> reads(100, Positions(100));
  const Recording recording(&reads);
  const Counted x = Counted::Input(0.0, 3), y = Counted::Input(1.0, 70);
  const Counted product = x * y;
  EXPECT_TRUE(product.origin()->inputs[3]);
  EXPECT_TRUE(product.origin()->inputs[70]);
  EXPECT_FALSE(product.origin()->inputs[4]);
  EXPECT_FALSE(x.origin()->inputs[70]);  // operands are left as they were
}

// Hops from edge to edge, which shares nothing with sets of positions.
std::map<int64_t, int64_t> HopsBySearch(const std::set<std::pair<int64_t, int64_t>>& edges, int64_t from) {
  std::map<int64_t, int64_t> hops = {{from, 0}};
  std::vector<int64_t> queue = {from};
  for (std::size_t next = 0; next < queue.size(); ++next) {
    for (const auto& [at, to] : edges) {
      if (at == queue[next] && hops.emplace(to, hops[at] + 1).second) queue.push_back(to);
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
    Pattern pattern(size, Positions(size));
    std::set<std::pair<int64_t, int64_t>> edges;
    for (int64_t edge = 0; edge < size + size / 2; ++edge) edges.emplace(random(size), random(size));
    for (const auto& [from, to] : edges) pattern[from].set(to);
    const Reachability reachability(pattern);
    for (int64_t from = 0; from < size; from += 1 + size / 8) {
      const std::map<int64_t, int64_t> expected = HopsBySearch(edges, from);
      for (int64_t to = 0; to < size; to += 1 + size / 16) {
        const auto found = expected.find(to);
        EXPECT_EQ(reachability.Hops(from, to), found == expected.end() ? kNever : found->second) << from << "->" << to;
      }
    }
  }
}

TEST(Reachability, AsksOnlyForEarlierPositionsWhenCausal) {
  Pattern chain(4, Positions(4));  // each reads the one before
  for (int64_t i = 1; i < 4; ++i) chain[i - 1].set(i);
  const Reachability reachability(chain);
  EXPECT_EQ(reachability.LongestPath(/*causal=*/true), 3);
  EXPECT_EQ(reachability.LongestPath(/*causal=*/false), kNever);
  EXPECT_EQ(reachability.UntilSeenTogether(0, 3), 3);
  EXPECT_EQ(reachability.UntilSeenTogether(2, 3), 1);
}

TEST(Reachability, StacksDifferentLayers) {
  Pattern one(5, Positions(5)), two = one;
  for (int64_t i = 1; i < 5; ++i) one[i - 1].set(i);
  for (int64_t i = 2; i < 5; ++i) two[i - 2].set(i);
  const Reachability stack(std::vector<Pattern>{one, two});
  EXPECT_EQ(stack.Hops(0, 0), 0);
  EXPECT_EQ(stack.Hops(0, 1), 1);
  EXPECT_EQ(stack.Hops(0, 2), 2);  // only the second layer moves by two
  EXPECT_EQ(stack.Hops(0, 3), 2);
  EXPECT_EQ(stack.Hops(0, 4), kNever);  // there is no third layer
  EXPECT_EQ(Reachability(std::vector<Pattern>{two, one}).Hops(0, 1), 2);
  EXPECT_EQ(stack.LongestPath(/*causal=*/true), kNever);
}

TEST(LargestDifference, CatchesAWrongFormula) {
  const Layer& layer = LayerNamed("convolution");
  const LayerShape shape{.width = 4, .kernel = 3};
  const LayerNumbers counted = Count(layer, shape, 9), right = layer.Expected(shape, 9);
  EXPECT_EQ(LargestDifference(counted, right), 0);

  LayerNumbers padding_counted = right;
  padding_counted.Of(Term::kConvolution) = 3 * 4 * 4 * 9;  // k d^2 n: the two taps beyond the ends, 4 x 4 each
  EXPECT_EQ(LargestDifference(counted, padding_counted), 2 * 16);

  LayerNumbers causal_path = right;
  causal_path.path_length = 4;  // of the causal convolution
  EXPECT_EQ(LargestDifference(counted, causal_path), 4);

  LayerNumbers other_term = right;  // the same sum in other places
  std::swap(other_term.Of(Term::kConvolution), other_term.Of(Term::kRecurrence));
  EXPECT_EQ(LargestDifference(counted, other_term), right.multiply_adds());
}

}  // namespace
}  // namespace heed::lab
