// Bad input is refused before anything is written, with a message that names the argument and what was expected.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "core/validation.h"
#include "heed/attention.h"
#include "heed/attention_check.h"
#include "problem.h"

namespace heed {
namespace {

using Float = Problem<float>;

class Validation : public ::testing::Test {
 protected:
  // Runs `call` and expects InvalidArgument with every part in its message and no output touched.
  void Refuses(const std::function<void(Float&)>& call, std::initializer_list<const char*> parts) {
    Float problem({2, 4, 2, 5, 6, 8, 3});
    try {
      call(problem);
      ADD_FAILURE() << "accepted; expected a message with " << *parts.begin();
    } catch (const InvalidArgument& error) {
      for (const char* part : parts) EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
    for (const auto& output : {problem.out, problem.lse, problem.d_q, problem.d_k, problem.d_v})
      for (float x : output) ASSERT_TRUE(std::isnan(x)) << "an output was written";
  }

  void RefusesForward(const Attention& attention, std::initializer_list<const char*> parts) {
    Refuses([&](Float& p) { p.Forward(attention, serial_); }, parts);
    Refuses([&](Float&) { CheckAttention(attention, {2, 4, 2, 5, 6, 8, 3}); }, parts);
  }

  SerialExecutor serial_;
};

TEST_F(Validation, NamesShapesThatDoNotFit) {
  Refuses(
      [&](Float& p) {
        heed::Forward({}, p.Queries(p.q), View<const float, 4>(), p.Values(p.v), p.Outputs(p.out), p.Lse(), p.workspace,
                      serial_);
      },
      {"k: it is absent; expected [B, Hkv, Nk, D] beside q, which is [2, 4, 5, 8]"});
  Refuses(
      [&](Float& p) {
        auto k = p.Keys(p.k);
        k.extent[3] = 7;
        heed::Forward({}, p.Queries(p.q), k, p.Values(p.v), p.Outputs(p.out), p.Lse(), p.workspace, serial_);
      },
      {"k: head widths differ", "[2, 4, 5, 8]", "[2, 2, 6, 7]"});
  Refuses(
      [&](Float& p) {
        auto k = p.Keys(p.k);
        k.extent[1] = 3;
        heed::Forward({}, p.Queries(p.q), k, p.Values(p.v), p.Outputs(p.out), p.Lse(), p.workspace, serial_);
      },
      {"multiple of the number of key heads"});
  Refuses(
      [&](Float& p) {
        auto v = p.Values(p.v);
        v.extent[2] = 5;
        heed::Forward({}, p.Queries(p.q), p.Keys(p.k), v, p.Outputs(p.out), p.Lse(), p.workspace, serial_);
      },
      {"v: expected", "[2, 2, 6, 3]", "[2, 2, 5, 3]"});
  Refuses(
      [&](Float& p) {
        auto out = p.Outputs(p.out);
        out.extent[2] = 4;
        heed::Forward({}, p.Queries(p.q), p.Keys(p.k), p.Values(p.v), out, p.Lse(), p.workspace, serial_);
      },
      {"out: expected", "[2, 4, 5, 3]"});
}

TEST_F(Validation, RefusesOutputsThatOverlap) {
  Refuses(
      [&](Float& p) {
        auto out = p.Outputs(p.out);
        out.stride[2] = 0;
        heed::Forward({}, p.Queries(p.q), p.Keys(p.k), p.Values(p.v), out, p.Lse(), p.workspace, serial_);
      },
      {"out: its elements overlap"});
  Float p({1, 1, 1, 4, 4, 4, 4});
  EXPECT_THROW(heed::Forward({}, p.Queries(p.q), p.Keys(p.k), p.Values(p.v), p.Outputs(p.q), p.Lse(), p.workspace, serial_),
               InvalidArgument);
}

TEST_F(Validation, RefusesOptionsOutOfRange) {
  Attention attention;
  attention.scale = std::numeric_limits<double>::quiet_NaN();
  RefusesForward(attention, {"scale"});
  for (double p : {-0.1, 1.0, 0.999999, std::nan("")}) {
    attention = {};
    attention.dropout.probability = p;
    RefusesForward(attention, {"dropout.probability"});
  }
  attention = {};
  attention.dropout = {0.5, 1, -1};
  RefusesForward(attention, {"batch_offset"});
  attention.dropout = {.probability = 0.5, .first_head = -1};
  RefusesForward(attention, {"dropout.first_head", "got -1"});
  attention.dropout = {.probability = 0.5, .first_head = (int64_t{1} << 16) - 3};
  RefusesForward(attention, {"65536 heads"});
  attention.dropout = {.probability = 0.5, .first_query = -2};
  RefusesForward(attention, {"dropout.first_query", "got -2"});
  attention.dropout = {.probability = 0.5, .first_key = -3};
  RefusesForward(attention, {"dropout.first_key", "got -3"});
  attention.dropout = {.probability = 0.5, .first_key = (int64_t{1} << 40) - 5};
  RefusesForward(attention, {"2^40"});
  attention = {};
  attention.causal = Causal::kTopLeft;
  attention.query_positions.offset = 3;
  RefusesForward(attention, {"causal", "query_positions"});
}

TEST_F(Validation, RefusesLengthsOutOfRange) {
  const std::vector<int64_t> keys{3, 7}, queries{-1, 2}, fine{1, 2, 3};
  Attention attention;
  attention.key_lengths = Lengths::PerBatch(keys.data(), 2);
  RefusesForward(attention, {"key_lengths", "0..6", "got 7", "batch row 1"});
  attention = {};
  attention.query_lengths = Lengths::PerBatch(queries.data(), 2);
  RefusesForward(attention, {"query_lengths", "got -1"});
  attention = {};
  attention.key_lengths = Lengths::PerBatch(fine.data(), 3);
  RefusesForward(attention, {"key_lengths", "B = 2"});
}

TEST_F(Validation, RefusesTablesThatDoNotFit) {
  const std::vector<float> table(20, 0.0f);
  Attention attention;
  attention.relative_bias = RelativeBias{View<const float, 2>::Contiguous(table.data(), {4, 4})};
  RefusesForward(attention, {"relative_bias", "2M+1", "[4, 4]"});
  attention.relative_bias = RelativeBias{View<const float, 2>::Contiguous(table.data(), {3, 5})};
  RefusesForward(attention, {"relative_bias", "Hq = 4"});
  const auto tables = [&](int64_t rows, int64_t width) {
    return View<const float, 2>::Contiguous(table.data(), {rows, width});
  };
  attention = {};
  attention.content_bias.emplace();
  RefusesForward(attention, {"content_bias", "keys, values or queries"});
  attention.content_bias->queries = tables(2, 8);
  RefusesForward(attention, {"content_bias.queries", "[2M+1, 8]", "[2, 8]"});
  attention.content_bias->queries = tables(1, 3);  // the width of the values
  RefusesForward(attention, {"content_bias.queries", "[2M+1, 8]", "[1, 3]"});
  attention.content_bias->queries = tables(1, 8);
  attention.content_bias->values = tables(3, 3);
  RefusesForward(attention, {"content_bias.values", "1 rows as content_bias.queries has", "[3, 3]"});
}

TEST_F(Validation, RefusesDecayOfColumnsThatDoesNotFit) {
  std::vector<double> rates(8, 0.25);
  Attention attention;
  attention.causal = Causal::kTopLeft;
  const auto given = [&](int64_t count) { return ColumnDecay{View<const double, 1>::Contiguous(rates.data(), {count})}; };
  attention.column_decay = given(7);
  RefusesForward(attention, {"column_decay.rates", "[D] = [8]", "[7]"});
  attention.column_decay = ColumnDecay{View<const double, 1>::Contiguous(nullptr, {8})};
  RefusesForward(attention, {"column_decay.rates", "no memory"});
  attention.column_decay = given(8);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double rate : {-0.5, -kInfinity, kInfinity, std::nan("")}) {
    rates[5] = rate;
    RefusesForward(attention, {"column_decay.rates", "finite numbers of 0 or more", "at 5"});
  }
}

TEST_F(Validation, RefusesDecayOfColumnsWhereLaterKeysAreSeen) {
  const std::vector<float> rates(8, 0.25f);
  const std::vector<int64_t> prefix{2, 0};
  Attention attention;
  attention.column_decay = ColumnDecay{View<const float, 1>::Contiguous(rates.data(), {8})};
  RefusesForward(attention, {"column_decay", "causal"});
  attention.window.left = 2;
  RefusesForward(attention, {"column_decay", "causal"});
  attention.window.right = 1;
  RefusesForward(attention, {"column_decay", "window without later keys"});
  attention.window = {-1, 0};
  attention.prefix_lengths = Lengths::PerBatch(prefix.data(), 2);
  RefusesForward(attention, {"column_decay", "prefix_lengths"});
  attention.prefix_lengths = {};
  Float p({2, 4, 2, 5, 6, 8, 3});
  p.Run(attention, serial_);
  for (const auto& output : {p.out, p.d_q, p.d_k, p.d_v})
    for (const float x : output) ASSERT_TRUE(std::isfinite(x));
}

TEST_F(Validation, TakesDecayOfColumnsOfAnySize) {
  constexpr double kMost = std::numeric_limits<double>::max();
  const std::vector<double> rates{0, 1e-300, 1, 20, 1e10, 1e300, 1.5e308, kMost};
  const std::vector<int64_t> far{0, 1, int64_t{1} << 40, (int64_t{1} << 40) + 1, int64_t{1} << 50};
  Attention attention;
  attention.causal = Causal::kBottomRight;
  attention.column_decay = ColumnDecay{View<const double, 1>::Contiguous(rates.data(), {8})};
  for (const bool listed : {false, true}) {
    if (listed) {
      const auto list = View<const int64_t, 2>::Contiguous(far.data(), {1, 5});
      attention.query_positions.list = attention.key_positions.list = list;
    }
    Float p({2, 4, 2, 5, 5, 8, 3});
    p.Run(attention, serial_);
    for (const auto& output : {p.out, p.d_q, p.d_k, p.d_v})
      for (const float x : output) ASSERT_TRUE(std::isfinite(x)) << (listed ? "far positions" : "positions in a row");
  }
}

TEST_F(Validation, RefusesQueryVectorsByHeadThatDoNotFit) {
  const std::vector<float> numbers(4 * 5 * 8, 0.0f);
  const auto tables = [&](std::array<int64_t, 3> extent) { return View<const float, 3>::Contiguous(numbers.data(), extent); };
  const auto table = [&](int64_t rows, int64_t width) {
    return View<const float, 2>::Contiguous(numbers.data(), {rows, width});
  };
  const auto refuses = [&](const ContentBias& bias, std::initializer_list<const char*> parts) {
    Attention attention;
    attention.content_bias = bias;
    RefusesForward(attention, parts);
  };
  ContentBias bias;
  for (const std::array<int64_t, 3> extent : {std::array<int64_t, 3>{2, 3, 8}, {4, 2, 8}, {4, 0, 8}, {4, 3, 3}}) {
    bias.head_queries = tables(extent);
    refuses(bias, {"content_bias.head_queries", "[Hq, 2M+1, D] with Hq = 4 and D = 8", core::ShapeText(extent).c_str()});
  }
  bias.head_queries = tables({4, 3, 8});
  bias.queries = table(3, 8);
  refuses(bias, {"content_bias.head_queries", "not both"});
  bias.queries.reset();
  bias.keys = table(5, 8);
  refuses(bias, {"content_bias.head_queries", "5 rows as content_bias.keys has", "[4, 3, 8]"});
  bias.keys.reset();
  bias.values = table(1, 3);
  refuses(bias, {"content_bias.head_queries", "1 rows as content_bias.values has", "[4, 3, 8]"});
  bias.values.reset();
  bias.head_queries = View<const float, 3>::Contiguous(nullptr, {4, 3, 8});
  refuses(bias, {"content_bias.head_queries", "no memory"});
}

TEST_F(Validation, HoldsContentOfValuesAgainstTheirWidth) {
  const std::vector<float> numbers(3 * 5, 0.0f);
  Attention attention;
  attention.content_bias.emplace().values = View<const float, 2>::Contiguous(numbers.data(), {3, 5});
  RefusesForward(attention, {"content_bias.values", "[2M+1, 3]", "[3, 5]"});
  Float without_width({2, 4, 2, 5, 6, 8, 0});
  EXPECT_THROW(without_width.Forward(attention, serial_), InvalidArgument);

  // Weights on request know no values.
  const std::vector<int64_t> first{0};
  const auto weights = [&](Float& p) {
    std::vector<float> out(2 * 6);
    const auto chosen = View<const int64_t, 1>::Contiguous(first.data(), {1});
    const View<const float, 3> lse = p.Lse();
    heed::Weights<float>(attention, p.Queries(p.q), p.Keys(p.k), lse, chosen, chosen,
                         View<float, 4>::Contiguous(out.data(), {2, 1, 1, 6}), p.workspace, serial_);
  };
  Float p({2, 4, 2, 5, 6, 8, 3});
  std::fill(p.lse.begin(), p.lse.end(), 0.0f);
  weights(p);
  attention.content_bias->values = View<const float, 2>::Contiguous(numbers.data(), {2, 5});
  Refuses(weights, {"content_bias.values", "[2M+1, Dv]", "[2, 5]"});
}

TEST_F(Validation, RefusesQueryVectorsByHeadBetweenPlacesThatAreNotWhole) {
  const std::vector<float> numbers(4 * 3 * 8, 0.0f);
  const std::vector<double> places{0, 1, 2.5, 3, 4};
  Attention attention;
  attention.content_bias.emplace().head_queries = View<const float, 3>::Contiguous(numbers.data(), {4, 3, 8});
  attention.query_positions.list = View<const double, 2>::Contiguous(places.data(), {1, 5});
  RefusesForward(attention, {"query_positions", "content_bias", "whole offsets", "2.5"});
}

TEST_F(Validation, ChecksTheBackwardPassToo) {
  Refuses(
      [&](Float& p) {
        auto d_k = p.Keys(p.d_k);
        d_k.extent[2] = 5;
        heed::Backward({}, p.Queries(p.q), p.Keys(p.k), p.Values(p.v), p.Outputs(p.out), p.Lse(), p.Outputs(p.d_out),
                       p.Queries(p.d_q), d_k, p.Values(p.d_v), {}, p.workspace, serial_);
      },
      {"d_k: expected the shape of k"});
  Refuses(
      [&](Float& p) {
        std::vector<float> d_bias(20);
        BiasGradients<float> d_biases;
        d_biases.relative_bias = View<float, 2>::Contiguous(d_bias.data(), {4, 5});
        heed::Backward({}, p.Queries(p.q), p.Keys(p.k), p.Values(p.v), p.Outputs(p.out), p.Lse(), p.Outputs(p.d_out),
                       p.Queries(p.d_q), p.Keys(p.d_k), p.Values(p.d_v), d_biases, p.workspace, serial_);
      },
      {"d_relative_bias"});
  Refuses(
      [&](Float& p) {
        std::vector<float> table(8), d_table(8);
        Attention attention;
        attention.content_bias.emplace();
        attention.content_bias->keys = View<const float, 2>::Contiguous(table.data(), {1, 8});
        BiasGradients<float> d_biases;
        d_biases.content_queries = View<float, 2>::Contiguous(d_table.data(), {1, 8});
        heed::Backward(attention, p.Queries(p.q), p.Keys(p.k), p.Values(p.v), p.Outputs(p.out), p.Lse(), p.Outputs(p.d_out),
                       p.Queries(p.d_q), p.Keys(p.d_k), p.Values(p.d_v), d_biases, p.workspace, serial_);
      },
      {"d_content_queries", "expected none, because the array"});
}

TEST_F(Validation, RefusesSizesThatOverflow) {
  Float p({1, 1, 1, 4, 4, 4, 4});
  auto k = p.Keys(p.k);
  k.extent = {1, 1, int64_t{1} << 40, int64_t{1} << 40};
  EXPECT_THROW(heed::Forward({}, p.Queries(p.q), k, p.Values(p.v), p.Outputs(p.out), p.Lse(), p.workspace, serial_),
               InvalidArgument);
}

TEST(Targets, AreNamedInTheError) {
  try {
    UseTarget("AVX9");
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find(SupportedTargets().front()), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace heed
