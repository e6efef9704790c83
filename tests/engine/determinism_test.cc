// The same bits for any number of threads, for a row alone or among others, and from run to run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>

#include "heed/attention.h"
#include "problem.h"
#include "reference/case_table.h"
#include "reference/line_array.h"
#include "reference/schemes.h"
#include "reference/trial_arrays.h"
#include "reference/trial_setup.h"

namespace heed {
namespace {

// Bits, so that NaN would equal NaN and -0 would not equal 0.
template <class T>
bool SameBits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

template <class T>
void ExpectSameBits(const Problem<T>& a, const Problem<T>& b, const std::string& what) {
  EXPECT_TRUE(SameBits(a.out, b.out)) << what << ": out";
  EXPECT_TRUE(SameBits(a.lse, b.lse)) << what << ": lse";
  EXPECT_TRUE(SameBits(a.d_q, b.d_q)) << what << ": d_q";
  EXPECT_TRUE(SameBits(a.d_k, b.d_k)) << what << ": d_k";
  EXPECT_TRUE(SameBits(a.d_v, b.d_v)) << what << ": d_v";
  EXPECT_TRUE(SameBits(a.d_bias, b.d_bias)) << what << ": d_bias";
}

struct Option {
  const char* name;
  std::function<void(Attention&)> set;
};

class EachOption : public ::testing::Test {
 protected:
  // Large enough to run in parallel, with several chunks of keys in the backward pass.
  Shape shape_{2, 2, 2, 300, 1300, 16, 24};
  std::vector<int64_t> key_lengths_{700, 1300}, query_lengths_{300, 123}, per_query_ = PerQuery();
  std::vector<int64_t> key_positions_ = PerKey();
  std::unique_ptr<bool[]> mask_ = std::make_unique<bool[]>(300 * 1300);

  std::vector<int64_t> PerKey() const {
    std::vector<int64_t> positions;
    for (int64_t j = 0; j < 1300; ++j) positions.push_back(j * 7 % 1301);
    return positions;
  }

  std::vector<int64_t> PerQuery() const {
    std::vector<int64_t> lengths;
    for (int64_t i = 0; i < 600; ++i) lengths.push_back(i * 37 % 1301);
    return lengths;
  }

  void ExpectSameBitsForThreads(const Attention& attention, const std::string& what) const {
    Problem<float> one(shape_);
    SerialExecutor serial;
    one.Run(attention, serial);
    for (int threads : {2, 3, 8}) {
      ThreadPool pool(threads);
      Problem<float> many(shape_);
      many.Run(attention, pool);
      ExpectSameBits(one, many, what + " with " + std::to_string(threads) + " threads");
    }
  }

  std::vector<Option> Options() {
    for (size_t x = 0; x < 300 * 1300; ++x) mask_[x] = x % 3 != 0;
    return {
        {"plain", [](Attention&) {}},
        {"causal", [](Attention& a) { a.causal = Causal::kBottomRight; }},
        {"causal top-left", [](Attention& a) { a.causal = Causal::kTopLeft; }},
        {"key lengths", [this](Attention& a) { a.key_lengths = Lengths::PerBatch(key_lengths_.data(), 2); }},
        {"key lengths per query", [this](Attention& a) { a.key_lengths = Lengths::PerQuery(per_query_.data(), 2, 300); }},
        {"uniform",
         [this](Attention& a) {
           a.key_lengths = Lengths::PerQuery(per_query_.data(), 2, 300);
           a.empty_row = EmptyRow::kUniform;
         }},
        {"query lengths", [this](Attention& a) { a.query_lengths = Lengths::PerBatch(query_lengths_.data(), 2); }},
        {"dropout",
         [](Attention& a) {
           a.dropout = {0.3, 42, 5};
         }},
        {"window",
         [](Attention& a) {
           a.window = {100, 30};
         }},
        {"listed positions",
         [this](Attention& a) {
           a.causal = Causal::kBottomRight;
           a.query_positions.list = View<const int64_t, 2>::Contiguous(per_query_.data(), {2, 300});
           a.key_positions.list = View<const int64_t, 2>::Contiguous(key_positions_.data(), {1, 1300});
         }},
        {"dense mask",
         [this](Attention& a) {
           a.mask = Mask{View<const bool, 4>::Contiguous(mask_.get(), {1, 1, 300, 1300})};
         }},
        {"everything",
         [this](Attention& a) {
           a.causal = Causal::kBottomRight;
           a.key_lengths = Lengths::PerBatch(key_lengths_.data(), 2);
           a.query_lengths = Lengths::PerBatch(query_lengths_.data(), 2);
           a.softcap = 4.0;
           a.dropout = {0.3, 42, 5};
         }},
    };
  }
};

TEST_F(EachOption, GivesTheSameBitsForAnyNumberOfThreads) {
  for (const Option& option : Options()) {
    Attention attention;
    option.set(attention);
    ExpectSameBitsForThreads(attention, option.name);
  }
}

// All their rows of the table of cases, at a quarter of this test's shape.
TEST_F(EachOption, OfAPositionalSchemeGivesTheSameBitsForAnyNumberOfThreads) {
  shape_.batch = 1, shape_.q_len = 150;
  reference::CaseTable table;
  reference::ForEachScheme([&]<class Scheme>() { Scheme::AddCases(table); });
  for (reference::Case c : table.rows()) {
    c.shape = shape_;
    c.packed = false;
    std::mt19937_64 random(1);
    const reference::Setup<float> setup(c, 1, random);
    ExpectSameBitsForThreads(setup.attention, c.name);
  }
}

TEST_F(EachOption, GivesTheSameBitsInDouble) {
  Attention attention;
  attention.causal = Causal::kBottomRight;
  attention.dropout = {0.3, 42, 5};
  Problem<double> one(shape_), many(shape_);
  SerialExecutor serial;
  ThreadPool pool(3);
  one.Run(attention, serial);
  many.Run(attention, pool);
  ExpectSameBits(one, many, "double");
}

// Where key heads are few, pieces of their queries run apart with enough threads, and are summed by one task with fewer.
template <class T>
void ExpectSameBitsForPieces(const Shape& shape, const Attention& attention, const std::string& what) {
  Problem<T> one(shape);
  SerialExecutor serial;
  one.Run(attention, serial);
  for (int threads : {2, 5, 12, 40}) {
    ThreadPool pool(threads);
    Problem<T> many(shape);
    many.Run(attention, pool);
    ExpectSameBits(one, many, what + " with " + std::to_string(threads) + " threads");
  }
}

TEST(Pieces, GiveTheSameBitsForAnyNumberOfThreads) {
  const Shape one_head{1, 1, 1, 4200, 1100, 16, 24}, one_key_head{2, 16, 1, 150, 1100, 24, 16};
  for (const bool causal : {false, true})
    for (const int64_t left : {-1, 100}) {
      Attention attention;
      if (causal) attention.causal = Causal::kBottomRight;
      attention.window.left = left;
      const std::string what = std::string(causal ? "causal" : "full") + ", window " + std::to_string(left);
      ExpectSameBitsForPieces<float>(one_head, attention, what + ", one head");
      ExpectSameBitsForPieces<float>(one_key_head, attention, what + ", one key head");
      ExpectSameBitsForPieces<double>(one_key_head, attention, what + ", one key head in double");
    }
}

// Gradients are summed up in the caller's arrays where those hold aligned vectors, and elsewhere where they do not: no bit may
// tell. One panel and several, whole chunks that are stored and others that are cleared before; heads one after the other and
// inside the steps.
TEST(Gradients, HaveTheSameBitsWhereverTheyAreSummedUp) {
  for (const Shape& shape : {Shape{2, 3, 3, 40, 130, 32, 48}, Shape{1, 4, 2, 150, 700, 16, 32}})
    for (const bool causal : {false, true}) {
      Attention attention;
      if (causal) attention.causal = Causal::kBottomRight;
      Problem<float> problem(shape);
      ThreadPool pool(3);
      problem.Run(attention, pool);
      for (const std::size_t offset : {0, 1})
        for (const bool inside : {false, true}) {
          const auto place = [&](reference::LineArray<float>& memory, int64_t width) {
            memory.assign(static_cast<std::size_t>(shape.batch * shape.kv_heads * shape.kv_len * width) + offset, NAN);
            View<float, 4> view = problem.Keys(problem.d_k);
            view.data = memory.data() + offset;
            view.extent[3] = width;
            view.stride = {shape.kv_heads * shape.kv_len * width, shape.kv_len * width, width, 1};
            if (inside) view.stride = {shape.kv_len * shape.kv_heads * width, width, shape.kv_heads * width, 1};
            return view;
          };
          reference::LineArray<float> keys, values;
          const View<float, 4> d_k = place(keys, shape.head_dim), d_v = place(values, shape.value_dim);
          Backward(attention, problem.Queries(problem.q), problem.Keys(problem.k), problem.Values(problem.v),
                   problem.Outputs(problem.out), problem.Lse(), problem.Outputs(problem.d_out), problem.Queries(problem.d_q),
                   d_k, d_v, BiasGradients<float>{}, problem.workspace, pool);
          EXPECT_EQ(reference::InOrder<float>(d_k), reference::InOrder<float>(problem.Keys(problem.d_k)));
          EXPECT_EQ(reference::InOrder<float>(d_v), reference::InOrder<float>(problem.Values(problem.d_v)));
        }
    }
}

// A few queries on many keys: heads share panels and keys are split.
TEST(Decoding, GivesTheSameBitsForAnyNumberOfThreadsAndForARowAlone) {
  const Shape shape{2, 8, 2, 1, 5000, 32, 32};
  Attention attention;
  Problem<float> one(shape), many(shape);
  SerialExecutor serial;
  one.Forward(attention, serial);
  ThreadPool pool(3);
  many.Forward(attention, pool);
  EXPECT_TRUE(SameBits(one.out, many.out) && SameBits(one.lse, many.lse));
  Shape single = shape;
  single.batch = 1;
  Problem<float> alone(single);
  std::copy_n(one.q.begin(), alone.q.size(), alone.q.begin());
  std::copy_n(one.k.begin(), alone.k.size(), alone.k.begin());
  std::copy_n(one.v.begin(), alone.v.size(), alone.v.begin());
  alone.Forward(attention, pool);
  EXPECT_TRUE(std::equal(alone.out.begin(), alone.out.end(), one.out.begin()));
}

// Row 1 of a batch of two, computed alone: what it returns must not depend on its neighbour.
TEST(BatchRow, IsTheSameAloneOrAmongOthers) {
  const Shape pair{2, 3, 3, 130, 700, 16, 16};
  Shape single = pair;
  single.batch = 1;
  Problem<float> both(pair), alone(single);
  const auto second_half = [](const std::vector<float>& all) {
    return std::vector<float>(all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end());
  };
  alone.q = second_half(both.q);
  alone.k = second_half(both.k);
  alone.v = second_half(both.v);
  alone.d_out = second_half(both.d_out);
  const std::vector<int64_t> lengths{10, 650};
  Attention attention;
  attention.causal = Causal::kBottomRight;
  attention.dropout = {0.2, 7, 0};
  attention.key_lengths = Lengths::PerBatch(lengths.data(), 2);
  ThreadPool pool(2);
  both.Run(attention, pool);
  attention.key_lengths = Lengths::PerBatch(lengths.data() + 1, 1);
  attention.dropout.batch_offset = 1;
  alone.Run(attention, pool);
  EXPECT_TRUE(SameBits(second_half(both.out), alone.out));
  EXPECT_TRUE(SameBits(second_half(both.lse), alone.lse));
  EXPECT_TRUE(SameBits(second_half(both.d_q), alone.d_q));
  EXPECT_TRUE(SameBits(second_half(both.d_k), alone.d_k));
  EXPECT_TRUE(SameBits(second_half(both.d_v), alone.d_v));
}

// A race would show as a difference between runs.
TEST(Repetition, GivesTheSameBits) {
  const Shape shape{1, 1, 1, 200, 1100, 16, 16};
  ThreadPool pool(4);
  Attention attention;
  Problem<float> first(shape);
  first.Run(attention, pool);
  for (int repeat = 0; repeat < 50; ++repeat) {
    Problem<float> again(shape);
    again.Run(attention, pool);
    ASSERT_TRUE(SameBits(first.d_q, again.d_q) && SameBits(first.d_k, again.d_k) && SameBits(first.out, again.out));
  }
}

}  // namespace
}  // namespace heed
