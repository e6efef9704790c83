// A gradient has the same bits whatever else is wanted, and what is not wanted takes no memory.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "heed/engine.h"
#include "position/scheme_set.h"
#include "problem.h"
#include "reference/random_cases.h"
#include "reference/trial_setup.h"

namespace heed {
namespace {

// The gradients of one case, as far as they are wanted.
class Gradients {
 public:
  // wanted: bit 0 d_q, 1 d_k, 2 d_v, 3 those of schemes.
  Gradients(const reference::Case& c, unsigned wanted) {
    std::mt19937_64 random(1);
    const reference::Setup<float> setup(c, 1, random);
    const auto input = [&](const std::array<int64_t, 4>& extent, reference::Role role) {
      return reference::MakeInput<float>(extent, c.layout, role, random);
    };
    const auto q = input(setup.QueryExtent(c.shape.head_dim), reference::Role::kInput);
    const auto k = input(setup.KeyExtent(c.shape.head_dim), reference::Role::kKeyInput);
    const auto v = input(setup.KeyExtent(c.shape.value_dim), reference::Role::kKeyInput);
    const auto d_out = input(setup.QueryExtent(c.shape.value_dim), reference::Role::kInput);
    reference::Output<float> out(d_out.view.extent, c.layout, random);
    const auto lse = lse_.Make(std::array{q.view.extent[0], q.view.extent[1], q.view.extent[2]});
    ThreadPool pool(2);
    Workspace workspace;
    Forward(setup.attention, q.view, k.view, v.view, out.view, lse, workspace, pool);
    View<float, 4> d_q, d_k, d_v;
    if (wanted & 1) d_q = Make(q.view.extent);
    if (wanted & 2) d_k = Make(k.view.extent);
    if (wanted & 4) d_v = Make(v.view.extent);
    BiasGradients<float> d_biases;
    position::ForEachSchemeGradient(setup.attention, d_biases, [&](const char*, auto& gradient, const auto* table) {
      if (table && (wanted & 8)) std::visit([&](const auto& t) { gradient = Make(t.extent); }, *table);
    });
    workspace.Release();
    Backward(setup.attention, q.view, k.view, v.view, out.view, lse, d_out.view, d_q, d_k, d_v, d_biases, workspace, pool);
    bytes_ = workspace.size();
  }

  std::size_t bytes() const { return bytes_; }
  // All of them in the order d_q, d_k, d_v, schemes.
  const std::vector<reference::Numbers<float>>& all() const { return all_; }

 private:
  template <std::size_t Rank>
  View<float, static_cast<int>(Rank)> Make(const std::array<int64_t, Rank>& extent) {
    return all_.emplace_back().Make(extent);
  }

  reference::Numbers<float> lse_;
  std::vector<reference::Numbers<float>> all_;
  std::size_t bytes_ = 0;
};

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(WantedGradients, HaveTheSameBitsWhateverElseIsWanted) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const reference::Case c = reference::RandomCase(seed);
    const Gradients all(c, 15);
    for (unsigned wanted : {1U, 2U, 4U, 8U, 3U, 5U, 9U, 12U}) {
      const Gradients some(c, wanted);
      std::size_t next = 0;
      for (std::size_t x = 0; x < all.all().size(); ++x) {
        if ((wanted >> std::min<std::size_t>(x, 3) & 1) == 0) continue;
        // A scheme's gradient decides which batch rows share a task, and with it the order of sums over them; the others do
        // not.
        ASSERT_LT(next, some.all().size()) << c.name;
        EXPECT_TRUE(SameBits(some.all()[next++].memory, all.all()[x].memory))
            << c.name << ", wanted " << wanted << ", array " << x;
      }
      EXPECT_EQ(next, some.all().size()) << c.name;
    }
  }
}

TEST(WantedGradients, TakeNoMemoryWhereTheyAreNot) {
  reference::Case c;
  c.shape = {1, 4, 4, 2048, 2048, 64, 64};
  EXPECT_LT(Gradients(c, 1).bytes(), Gradients(c, 7).bytes());
  EXPECT_LT(Gradients(c, 4).bytes(), Gradients(c, 6).bytes());
  EXPECT_EQ(Gradients(c, 0).bytes(), 0U);
}

TEST(WantedGradients, AreRefusedWithoutMemoryWhereTheyHaveAShape) {
  Problem<float> p({1, 2, 2, 3, 5, 4, 4});
  SerialExecutor serial;
  p.Forward({}, serial);
  const auto without = View<float, 4>::Contiguous(nullptr, {1, 2, 3, 4});
  EXPECT_THROW(Backward({}, p.Queries(p.q), p.Keys(p.k), p.Values(p.v), p.Outputs(p.out), p.Lse(), p.Outputs(p.d_out), without,
                        p.Keys(p.d_k), p.Values(p.d_v), {}, p.workspace, serial),
               InvalidArgument);
}

TEST(Arrays, ByNameAndByPlaceAreOneCall) {
  Problem<float> by_place({2, 4, 2, 5, 7, 8, 6}), p({2, 4, 2, 5, 7, 8, 6});
  std::vector<float> slopes{0.5f, 0.25f, 0.1f, 0.05f}, d_slopes(4);
  Attention attention;
  attention.slope_bias = SlopeBias{View<const float, 1>::Contiguous(slopes.data(), {4})};
  BiasGradients<float> d_biases;
  d_biases.slopes = View<float, 1>::Contiguous(d_slopes.data(), {4});
  SerialExecutor serial;
  by_place.Run(attention, serial);
  Forward<float>(attention, {.q = p.Queries(p.q), .k = p.Keys(p.k), .v = p.Values(p.v)},
                 {.out = p.Outputs(p.out), .lse = p.Lse()});
  Backward<float>(attention,
                  {.q = p.Queries(p.q),
                   .k = p.Keys(p.k),
                   .v = p.Values(p.v),
                   .out = p.Outputs(p.out),
                   .lse = p.Lse(),
                   .d_out = p.Outputs(p.d_out)},
                  {.q = p.Queries(p.d_q), .k = p.Keys(p.d_k), .v = p.Values(p.d_v), .biases = d_biases});
  EXPECT_TRUE(SameBits(p.out, by_place.out));
  EXPECT_TRUE(SameBits(p.lse, by_place.lse));
  EXPECT_TRUE(SameBits(p.d_q, by_place.d_q));
  EXPECT_TRUE(SameBits(p.d_k, by_place.d_k));
  EXPECT_TRUE(SameBits(p.d_v, by_place.d_v));
  EXPECT_TRUE(SameBits(d_slopes, by_place.d_bias));
}

}  // namespace
}  // namespace heed
