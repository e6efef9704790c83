#include "bench/suites/torch_attention.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include "bench/suites/contenders.h"
#include "bench/suites/measurement.h"
#include "bench/suites/random_call.h"

namespace heed::lab {
namespace {

// Calls of which a hundred take seconds.
constexpr DrawLimits kSmall{.bytes = 64 << 20, .operations = 2e7, .longest = 300};

std::vector<CallCase> SmallCalls(uint64_t seed, int count) {
  Random random(seed);
  std::vector<CallCase> calls;
  calls.reserve(static_cast<std::size_t>(count));
  for (int drawn = 0; drawn < count; ++drawn) calls.push_back(DrawCall(random, kSmall));
  return calls;
}

CallCase Case(const std::string& text) { return ParseCase(text, "--case"); }

// Relative to the largest of an array, of sums of up to some hundred products of normal numbers. LibTorch's 16-bit paths round
// scores, weights and their gradients where heed rounds what it stores; those errors add up as a random walk.
double ToleranceOfCalls(BenchType type) {
  if (type == BenchType::kDouble) return 1e-12;
  if (type == BenchType::kFloat) return 2e-5;
  return type == BenchType::kBFloat16 ? 8 * std::ldexp(1.0, -8) : 8 * std::ldexp(1.0, -11);
}

void ExpectAgreementOfCalls(const NamedTensors& heed, const NamedTensors& torch, double tolerance, const std::string& words) {
  ASSERT_EQ(heed.size(), torch.size()) << words;
  for (std::size_t x = 0; x < heed.size(); ++x) {
    ASSERT_EQ(heed[x].first, torch[x].first) << words;
    const at::Tensor mine = heed[x].second.to(at::kDouble), other = torch[x].second.to(at::kDouble);
    ASSERT_EQ(mine.sizes(), other.sizes()) << words << ": " << heed[x].first;
    const double scale = other.abs().max().item<double>(), worst = (mine - other).abs().max().item<double>();
    // Gradients of scores vanish where a row has one key; what is left of them is rounding of sums of about 1.
    EXPECT_LE(worst, tolerance * std::max(scale, 0.1)) << words << ": " << heed[x].first << ", largest " << scale;
  }
}

std::string Words(const CallCase& c, const std::string& way) { return TextOf(c) + (way.empty() ? "" : " (" + way + ")"); }

TEST(TorchAttentionTest, EveryWayOfARandomCallComputesWhatHeedDoes) {
  at::manual_seed(1);
  for (CallCase c : SmallCalls(1, 250)) {
    c.dropout = 0;  // two sides that drop at random agree only where they do not
    const auto contenders = MakeContenders(c);
    const NamedTensors heed = contenders->Run(BenchSide::kHeed, c.pass);
    const std::vector<std::string> ways = contenders->TorchWays();
    for (std::size_t way = 0; way < ways.size(); ++way) {
      contenders->SetTorchWay(way);
      ExpectAgreementOfCalls(heed, contenders->Run(BenchSide::kTorch, c.pass), ToleranceOfCalls(c.type), Words(c, ways[way]));
    }
  }
}

TEST(TorchAttentionTest, HasEveryWayThatAUserWouldTry) {
  using Ways = std::vector<std::string>;
  const auto ways = [](const std::string& text) { return MakeContenders(Case(text))->TorchWays(); };
  EXPECT_EQ(ways("B2 H4 n9 d8"), Ways{""});
  EXPECT_EQ(ways("B2 H4 n9 d8 causal"), Ways{""}) << "is_causal";
  EXPECT_EQ(ways("B2 H4 n9:20 d8 causal=top-left"), Ways{""}) << "is_causal";
  EXPECT_EQ(ways("B2 H4 n9:20 d8 causal"), (Ways{"", "additive mask"}));
  EXPECT_EQ(ways("B2 H4 n1:20 d8 causal"), Ways{""}) << "the last query sees all";
  EXPECT_EQ(ways("B2 H4 n1:20 d8 causal window=7"), Ways{""}) << "the last keys alone";
  EXPECT_EQ(ways("B1 H4 n9:20 d8 key-lengths"), Ways{""}) << "the first keys alone";
  EXPECT_EQ(ways("B2 H4:2 n1:20 d8"), (Ways{"enable_gqa", "repeated heads", "folded groups"}));
  EXPECT_EQ(ways("B2 H4:2 n9 d8 causal"), (Ways{"enable_gqa", "repeated heads"}));
  EXPECT_EQ(ways("B2 H4:2 n3:9 d8 key-lengths"),
            (Ways{"enable_gqa", "enable_gqa, additive mask", "repeated heads", "repeated heads, additive mask", "folded groups",
                  "folded groups, additive mask"}));
  EXPECT_EQ(ways("B2 H4:2 n3:9 d8 bias"), (Ways{"enable_gqa", "repeated heads"})) << "a bias tells the heads of a group apart";
  EXPECT_EQ(ways("B2 H4 n9 d8:6"), (Ways{"", "padded widths"}));
  EXPECT_EQ(ways("B2 H4 n9 d8:6 dropout=0.1"), Ways{""}) << "dropout takes the quadratic path anyway";
}

TEST(TorchAttentionTest, TheFusedPathIsTakenWhereAWayAllowsIt) {
  const auto path = [](const std::string& text, std::size_t way) {
    const auto contenders = MakeContenders(Case(text));
    contenders->SetTorchWay(way);
    return contenders->TorchPath(Case(text).pass);
  };
  EXPECT_EQ(path("B2 H4 n9:20 d8 causal=top-left", 0), "flash");
  EXPECT_EQ(path("B2 H4:2 n1:20 d8", 2), "flash");
  EXPECT_EQ(path("B2 H4:1 n1:20 d8 bfloat16", 1), "flash");
  EXPECT_EQ(path("B2 H4 n9 d8:6", 0), "math");
  EXPECT_EQ(path("B2 H4 n9 d8:6", 1), "flash");
  EXPECT_EQ(path("B2 H4 n9 d8 dropout=0.1", 0), "math");
  EXPECT_EQ(path("B2 H4 n9 d8 bias=trainable pass=both", 0), "math");
  EXPECT_EQ(path("B2 H4 n9 d8 bias pass=both", 0), "flash");
}

thread_local bool saw_flash = false, saw_math = false;

std::unique_ptr<at::ObserverContext> See(const at::RecordFunction& function) {
  const std::string name = function.name();
  saw_flash = saw_flash || name.find("flash_attention_for_cpu") != std::string::npos;
  saw_math = saw_math || name.find("attention_math") != std::string::npos;
  return nullptr;
}

TEST(TorchAttentionTest, ThePathThatIsNamedIsTheOneThatRuns) {
  for (const CallCase& c : SmallCalls(2, 60)) {
    const auto contenders = MakeContenders(c);
    const std::vector<std::string> ways = contenders->TorchWays();
    for (std::size_t way = 0; way < ways.size(); ++way) {
      contenders->SetTorchWay(way);
      const std::string path = contenders->TorchPath(c.pass);
      saw_flash = saw_math = false;
      const at::CallbackHandle handle = at::addThreadLocalCallback(at::RecordFunctionCallback(&See));
      contenders->Run(BenchSide::kTorch, c.pass);
      at::removeCallback(handle);
      EXPECT_EQ(saw_flash, path == "flash") << Words(c, ways[way]);
      EXPECT_EQ(saw_math, path == "math") << Words(c, ways[way]);
    }
  }
}

// Values whose rows are those of an identity matrix: the output is then the matrix of weights.
TEST(TorchAttentionTest, OperationsCountThePairsThatAreSeen) {
  at::manual_seed(3);
  for (CallCase c : SmallCalls(3, 200)) {
    if (c.shape.kv_len > 64 || c.bias != CallCase::Bias::kNone) continue;
    c.dropout = 0, c.shape.value_dim = 64;
    const auto contenders = MakeContenders(c);
    {
      const at::NoGradGuard no_grad;
      for (auto& [name, array] : contenders->Arrays(BenchSide::kHeed)) {
        if (name == "value") array.copy_(at::eye(c.shape.kv_len, 64).expand_as(array));
        if (name == "query") array.zero_();
      }
    }
    const at::Tensor weights = contenders->Run(BenchSide::kHeed, BenchPass::kForward)[0].second;
    const auto pairs = static_cast<double>(weights.count_nonzero().item<int64_t>());
    const auto key = static_cast<double>(c.shape.head_dim);
    EXPECT_EQ(contenders->Operations(BenchPass::kForward), 2 * (key + 64) * pairs) << TextOf(c);
    EXPECT_EQ(contenders->Operations(BenchPass::kForwardBackward), 2 * (4 * key + 3 * 64) * pairs) << TextOf(c);
  }
}

TEST(TorchAttentionTest, TheFastestWayIsChosen) {
  // Ways whose times leave no doubt: the first reads a number for every query head, the others for every key head.
  class Slow : public BenchContenders {
   public:
    NamedTensors Run(BenchSide side, BenchPass) override {
      EXPECT_EQ(side, BenchSide::kTorch);
      ++runs[way];
      for (int64_t x = 0, end = way == 2 ? 1000 : 10000000; x < end; ++x) sum = sum + 1e-9;
      return {};
    }
    NamedTensors Arrays(BenchSide) override { return {}; }
    std::string TorchPath(BenchPass) const override { return "math"; }
    double Operations(BenchPass) const override { return 0; }
    std::vector<std::string> TorchWays() const override { return {"a", "b", "c", "d"}; }
    void SetTorchWay(std::size_t place) override { way = place; }

    std::size_t way = 0;
    int runs[4] = {};
    volatile double sum = 0;
  } slow;
  EXPECT_EQ(ChooseTorchWay(slow, BenchPass::kForward), "c");
  EXPECT_EQ(slow.way, 2U);
  EXPECT_LT(slow.runs[0] + slow.runs[3], 2 * slow.runs[2]) << "what is hopeless is not run again";
}

// BytesOf bounds what a call takes, made and run in every way; it may say more, but a machine must not be filled.
TEST(TorchAttentionTest, MemoryIsBoundedByItsEstimate) {
  constexpr double kSlackMib = 8;  // stacks, arenas and pages in part
  Random random(4);
  int of_some_size = 0;
  for (int drawn = 0; drawn < 60; ++drawn) {
    const CallCase c = DrawCall(random, {.bytes = 300 << 20, .operations = 4e8, .longest = 4096});
    if (BytesOf(c) < (60 << 20)) continue;
    ++of_some_size;
    const double grown = PeakGrowth([&c] {
      const auto contenders = MakeContenders(c);
      contenders->Run(BenchSide::kHeed, c.pass);
      const std::size_t ways = contenders->TorchWays().size();
      for (std::size_t way = 0; way < ways; ++way) {
        contenders->SetTorchWay(way);
        contenders->Run(BenchSide::kTorch, c.pass);
      }
    });
    EXPECT_LE(grown, BytesOf(c) / (1 << 20) + kSlackMib) << TextOf(c);
  }
  EXPECT_GE(of_some_size, 5);
}

}  // namespace
}  // namespace heed::lab
