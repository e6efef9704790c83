#include "bench/suites/contenders.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include "bench/suites/bench.h"

namespace heed::lab {
namespace {

constexpr BenchSide kSides[] = {BenchSide::kHeed, BenchSide::kTorch};

// Few rows of fewer steps than a head is wide, so that values can be the rows of an identity matrix.
CallCase Small(CallCase c) {
  c.shape.batch = std::min<int64_t>(c.shape.batch, 3);
  if (c.shape.q_len > 1) c.shape.q_len = 27;
  c.shape.kv_len = 27;
  c.threads = 1;
  return c;
}

bool Trains(const CallCase& c) { return c.pass == BenchPass::kTrainingStep; }

std::vector<BenchCase> SmallCases() {
  std::vector<BenchCase> cases;
  std::set<std::string> seen;  // most decoding cases differ in length alone
  for (BenchCase c : CasesOf("all")) {
    c.call = Small(c.call);
    if (Trains(c.call) || seen.insert(TextOf(c.call)).second) cases.push_back(c);
  }
  return cases;
}

// Two sides that drop at random agree only where they do not.
CallCase WithoutDropout(CallCase c) {
  c.dropout = 0;
  return c;
}

std::string Words(const BenchCase& c, const BenchPass pass) {
  return c.suite + ", " + c.option + ", pass " + std::to_string(static_cast<int>(pass));
}

// Of 27 sums of products of normal numbers, relative to the largest of an array: both sides round each number that they store
// once, LibTorch's 16-bit kernels intermediate results too.
double Tolerance(BenchType type) {
  if (type == BenchType::kDouble) return 1e-13;
  if (type == BenchType::kFloat) return 1e-5;
  return type == BenchType::kBFloat16 ? 4 * std::ldexp(1.0, -8) : 4 * std::ldexp(1.0, -11);
}

void ExpectAgreement(const NamedTensors& heed, const NamedTensors& torch, double tolerance, const std::string& words) {
  std::map<std::string, at::Tensor> expected(torch.begin(), torch.end());
  EXPECT_EQ(heed.size(), torch.size()) << words;
  for (const auto& [name, tensor] : heed) {
    ASSERT_TRUE(expected.contains(name)) << words << ": " << name;
    const at::Tensor other = expected.at(name).to(at::kDouble), mine = tensor.to(at::kDouble);
    ASSERT_EQ(mine.sizes(), other.sizes()) << words << ": " << name;
    // A key's bias adds the same to all scores of a row, which changes no weight: its gradient is rounding alone.
    const double scale = name.ends_with("W_k.bias") ? 1e-2 : other.abs().max().item<double>();
    EXPECT_LE((mine - other).abs().max().item<double>(), tolerance * scale) << words << ": " << name;
  }
}

void Set(BenchContenders& contenders, const std::string& name, const at::Tensor& value) {
  const at::NoGradGuard no_grad;
  for (const BenchSide side : kSides) {
    for (auto& [own, array] : contenders.Arrays(side)) {
      if (own == name) array.copy_(value.expand_as(array));
    }
  }
}

// Values whose rows are those of an identity matrix: the output is then the matrix of weights.
void ShowWeights(BenchContenders& contenders, const Shape& shape) {
  Set(contenders, "value", at::eye(shape.kv_len, shape.head_dim));
  Set(contenders, "d_output", at::eye(shape.q_len, shape.head_dim));
}

bool Visible(const CallCase& c, int64_t length, int64_t query, int64_t key) {
  return (c.causal == Causal::kNone || key <= query) && (!c.key_lengths || key < length) &&
         (!c.query_lengths || query < length);
}

// Pairs of a query and a key that see each other, over all rows and heads; lengths go from an eighth to the whole.
int64_t PairsOfAllHeads(const CallCase& c) {
  const auto [batch, heads, queries, keys] = std::tuple(c.shape.batch, c.shape.q_heads, c.shape.q_len, c.shape.kv_len);
  int64_t pairs = 0;
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t shortest = keys / 8;
    const double step = batch > 1 ? static_cast<double>(keys - shortest) / static_cast<double>(batch - 1) : 0;
    const auto length = static_cast<int64_t>(static_cast<double>(shortest) + step * static_cast<double>(b));
    for (int64_t i = 0; i < queries; ++i)
      for (int64_t j = 0; j < keys; ++j) pairs += Visible(c, length, i, j) ? heads : 0;
  }
  return pairs;
}

// The operators that LibTorch runs on this thread while it lives, by name, with the products of matrices counted.
class Watch {
 public:
  Watch() {
    watching = this;
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&Watch::See).needsInputs(true));
  }
  ~Watch() {
    at::removeCallback(handle_);
    watching = nullptr;
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  double operations = 0;  // of products of two matrices: 2 m k n each
  std::multiset<std::string> names;
  std::map<std::vector<int64_t>, int64_t> dropped;  // shapes that at::dropout got

  bool Ran(const std::string& part) const {
    return std::ranges::any_of(names, [&](const std::string& name) { return name.find(part) != std::string::npos; });
  }
  int64_t Count(const std::string& part) const {
    return std::ranges::count_if(names, [&](const std::string& name) { return name.find(part) != std::string::npos; });
  }

 private:
  static std::unique_ptr<at::ObserverContext> See(const at::RecordFunction& function) {
    const std::string name = function.name();
    watching->names.insert(name);
    const auto inputs = function.inputs();
    if (name == "aten::mm" || name == "aten::addmm") {
      const at::Tensor& left = inputs[name == "aten::mm" ? 0 : 1].toTensor();
      const at::Tensor& right = inputs[name == "aten::mm" ? 1 : 2].toTensor();
      watching->operations += 2.0 * static_cast<double>(left.size(0) * left.size(1) * right.size(1));
    }
    if (name == "mkldnn::_linear_pointwise") {
      const at::Tensor &rows = inputs[0].toTensor(), &weight = inputs[1].toTensor();
      watching->operations += 2.0 * static_cast<double>(rows.numel() * weight.size(0));
    }
    if (name == "aten::dropout") ++watching->dropped[inputs[0].toTensor().sizes().vec()];
    return nullptr;
  }

  static thread_local Watch* watching;
  at::CallbackHandle handle_;
};
thread_local Watch* Watch::watching = nullptr;

TEST(ContendersTest, BothSidesComputeTheSame) {
  at::manual_seed(1);
  for (const BenchCase& c : SmallCases()) {
    const auto contenders = MakeContenders(WithoutDropout(c.call));
    for (const BenchPass pass : PassesOf(c)) {
      const NamedTensors heed = contenders->Run(BenchSide::kHeed, pass), torch = contenders->Run(BenchSide::kTorch, pass);
      EXPECT_EQ(heed.size() > 1, pass != BenchPass::kForward) << Words(c, pass);
      ExpectAgreement(heed, torch, Tolerance(c.call.type), Words(c, pass));
    }
  }
}

TEST(ContendersTest, OperationsCountThePairsThatBothSidesLookAt) {
  at::manual_seed(2);
  for (const BenchCase& c : SmallCases()) {
    if (Trains(c.call)) continue;
    const auto contenders = MakeContenders(WithoutDropout(c.call));
    ShowWeights(*contenders, c.call.shape);
    const int64_t pairs = PairsOfAllHeads(c.call);
    for (const BenchSide side : kSides) {
      const at::Tensor weights = contenders->Run(side, BenchPass::kForward)[0].second;
      EXPECT_EQ(weights.count_nonzero().item<int64_t>(), pairs) << Words(c, BenchPass::kForward);
    }
    // Two products of head_dim multiply-adds for a pair; backward five more, as the scores are computed again.
    const auto product = 2.0 * static_cast<double>(c.call.shape.head_dim * pairs);
    EXPECT_EQ(contenders->Operations(BenchPass::kForward), 2 * product) << Words(c, BenchPass::kForward);
    EXPECT_EQ(contenders->Operations(BenchPass::kForwardBackward), 7 * product) << Words(c, BenchPass::kForwardBackward);
  }
}

// Equal scores: every weight is one over the visible keys, kept and scaled or dropped.
TEST(ContendersTest, BothSidesDropATenthAndScaleTheRest) {
  at::manual_seed(3);
  for (const BenchCase& c : SmallCases()) {
    if (c.call.dropout == 0 || Trains(c.call)) continue;
    const auto contenders = MakeContenders(c.call);
    ShowWeights(*contenders, c.call.shape);
    Set(*contenders, "query", at::zeros({1}));
    const int64_t length = c.call.shape.kv_len;
    at::Tensor expected = at::ones({length, length});
    if (c.call.causal != Causal::kNone) expected = expected.tril();
    expected = expected / (0.9 * expected.sum(1, true));
    for (const BenchSide side : kSides) {
      const NamedTensors computed = contenders->Run(side, BenchPass::kForwardBackward);
      const at::Tensor weights = computed[0].second.narrow(3, 0, length), d_value = computed[3].second;
      const at::Tensor kept = weights.ne(0), wanted = expected.expand_as(weights);
      // The probability is resolved to 1/65536 or better, a relative change of 1e-5 here.
      EXPECT_TRUE(at::allclose(weights.masked_select(kept), wanted.masked_select(kept), 2e-5)) << c.suite;
      const auto pairs = static_cast<double>(PairsOfAllHeads(c.call));
      const double share = 1.0 - static_cast<double>(kept.sum().item<int64_t>()) / pairs;
      EXPECT_NEAR(share, 0.1, 5 * std::sqrt(0.1 * 0.9 / pairs)) << "five deviations of a count";
      // The output's gradient picks one query a column: the same weights are dropped backward.
      EXPECT_TRUE(at::allclose(d_value.narrow(3, 0, length), weights.transpose(2, 3), 1e-5)) << c.suite;
    }
  }
}

TEST(ContendersTest, ThePathThatIsNamedIsTheOneThatRuns) {
  for (const BenchCase& c : SmallCases()) {
    const auto contenders = MakeContenders(c.call);
    for (const BenchPass pass : PassesOf(c)) {
      const std::string path = contenders->TorchPath(pass);
      const Watch watch;
      contenders->Run(BenchSide::kTorch, pass);
      EXPECT_EQ(watch.Ran("flash_attention_for_cpu"), path == "flash") << Words(c, pass) << ": " << path;
      EXPECT_EQ(watch.Ran("attention_math"), path == "math") << Words(c, pass) << ": " << path;
    }
  }
}

TEST(ContendersTest, BothModelsTrainAlike) {
  at::manual_seed(4);
  for (const BenchCase& c : SmallCases()) {
    if (!Trains(c.call)) continue;
    const auto contenders = MakeContenders(WithoutDropout(c.call));
    ExpectAgreement(contenders->Arrays(BenchSide::kHeed), contenders->Arrays(BenchSide::kTorch), 0, c.suite + ", the start");
    double first = 0, last = 0;
    for (int step = 0; step < 5; ++step) {
      const double heed = contenders->Run(BenchSide::kHeed, BenchPass::kTrainingStep)[0].second.item<double>();
      const double torch = contenders->Run(BenchSide::kTorch, BenchPass::kTrainingStep)[0].second.item<double>();
      // Gradients that are zero but for rounding decide the direction of a few of AdamW's steps.
      EXPECT_NEAR(heed, torch, 1e-4 * torch) << c.suite << ", step " << step;
      (step == 0 ? first : last) = heed;
    }
    EXPECT_LT(last, first) << "the step is taken";
  }
}

TEST(ContendersTest, BothModelsDropAtTheSamePlaces) {
  for (const BenchCase& c : SmallCases()) {
    if (!Trains(c.call) || c.call.dropout == 0) continue;
    constexpr int64_t kLayers = 4, kPlaces = 1 + 2 * kLayers;  // the input, and what each sublayer adds
    const auto contenders = MakeContenders(c.call);
    {
      const Watch watch;
      contenders->Run(BenchSide::kHeed, BenchPass::kTrainingStep);
      EXPECT_EQ(watch.Count("DropoutFunction"), 2 * kPlaces) << "forward and backward";
    }
    const Watch watch;
    contenders->Run(BenchSide::kTorch, BenchPass::kTrainingStep);
    const Shape& s = c.call.shape;
    const std::map<std::vector<int64_t>, int64_t> expected = {{{s.batch, s.kv_len, s.q_heads * s.head_dim}, kPlaces},
                                                              {{s.batch, s.q_heads, s.kv_len, s.kv_len}, kLayers}};
    EXPECT_EQ(watch.dropped, expected);
  }
}

TEST(ContendersTest, OperationsOfATrainingStepAreItsProducts) {
  for (const BenchCase& c : SmallCases()) {
    if (!Trains(c.call)) continue;
    const auto contenders = MakeContenders(c.call);
    // Attention: four layers of seven products over the pairs at or before each query.
    const Shape& s = c.call.shape;
    const int64_t pairs = s.kv_len * (s.kv_len + 1) / 2;
    const double attention = 4 * 7 * 2.0 * static_cast<double>(s.head_dim * s.q_heads * s.batch * pairs);
    for (const BenchSide side : kSides) {
      const Watch watch;
      contenders->Run(side, BenchPass::kTrainingStep);
      EXPECT_EQ(watch.operations + attention, contenders->Operations(BenchPass::kTrainingStep)) << c.suite;
    }
  }
}

TEST(ContendersTest, ARunLeavesNoGradients) {
  for (const BenchCase& c : SmallCases()) {
    const auto contenders = MakeContenders(c.call);
    for (const BenchSide side : kSides) {
      contenders->Run(side, PassesOf(c).back());
      int64_t leaves = 0;
      for (const auto& [name, array] : contenders->Arrays(side)) {
        if (!array.is_leaf() || !array.requires_grad()) continue;
        EXPECT_FALSE(array.grad().defined()) << c.suite << ": " << name;
        ++leaves;
      }
      EXPECT_GE(leaves, 3) << c.suite;
    }
  }
}

}  // namespace
}  // namespace heed::lab
