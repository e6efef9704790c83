// Trained slopes: their gradients multiply what rounding left by distances.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>
#include <vector>

#include "heed/attention.h"
#include "heed/error.h"
#include "heed/positions.h"
#include "reference/trial_arrays.h"
#include "targets.h"

namespace heed {
namespace {

using reference::Input, reference::Layout, reference::Numbers, reference::Output, reference::Role;

class SlopeBiasOn : public OnTarget {};

// The gradients of slopes in bfloat16 with rounded weights.
std::vector<float> SlopeGradients(const Attention& attention, int64_t queries, int64_t keys, bool lse_gradient) {
  constexpr int64_t kHeads = 4, kWidth = 16;
  std::mt19937_64 random(5);
  const auto make = [&](int64_t length, Role role) {
    return reference::MakeInput<BFloat16>({1, kHeads, length, kWidth}, Layout::kContiguous, role, random);
  };
  const Input<BFloat16> q = make(queries, Role::kInput), k = make(keys, Role::kKeyInput), v = make(keys, Role::kKeyInput),
                        d_out = make(queries, Role::kInput);
  const auto output = [&](const Input<BFloat16>& like) {
    return Output<BFloat16>(like.view.extent, Layout::kContiguous, random);
  };
  Output<BFloat16> out = output(q), d_q = output(q), d_k = output(k), d_v = output(v);
  Numbers<float> lse, d_slopes;
  const auto lse_view = lse.Make(std::array<int64_t, 3>{1, kHeads, queries});
  BiasGradients<float> gradients;
  gradients.slopes = d_slopes.Make(std::array<int64_t, 1>{kHeads});
  const std::vector<float> ones(static_cast<std::size_t>(kHeads * queries), 1.0F);
  View<const float, 3> d_lse;
  if (lse_gradient) d_lse = View<const float, 3>::Contiguous(ones.data(), {1, kHeads, queries});
  Workspace workspace;
  SerialExecutor serial;
  Forward<BFloat16>(attention, q.view, k.view, v.view, out.view, lse_view, workspace, serial);
  Backward<BFloat16>(attention, q.view, k.view, v.view, out.view, lse_view, d_out.view, d_q.view, d_k.view, d_v.view, gradients,
                     workspace, serial, d_lse);
  d_slopes.memory.pop_back();
  return d_slopes.memory;
}

// All keys lie behind the queries, so that a distance is what all pairs share and the difference of two indices. The softmax
// does not see what they share, nor may the gradient; with a gradient of its own the log-sum-exp does, by one of these
// distances a row.
TEST_P(SlopeBiasOn, GradientsDoNotGrowWithADistanceThatAllKeysShare) {
  constexpr int64_t kFar = 1000;
  const std::vector<float> slopes{0.01F, 0.02F, 0.005F, 0.04F}, negated{-0.01F, -0.02F, -0.005F, -0.04F};
  for (const int64_t queries : {3, 40})
    for (const bool lse_gradient : {false, true})
      for (const bool listed : {false, true}) {
        const int64_t keys = 90;
        std::vector<int64_t> positions;
        for (int64_t j = 0; j < keys; ++j) positions.push_back(kFar + j);
        Attention far, near;
        far.precision = near.precision = Precision::kFused;
        far.slope_bias = SlopeBias{View<const float, 1>::Contiguous(slopes.data(), {4}), true};
        near.slope_bias = SlopeBias{View<const float, 1>::Contiguous(negated.data(), {4}), false};
        far.query_positions.offset = near.query_positions.offset = 0;
        far.key_positions.offset = kFar;
        if (listed) {
          far.key_positions = {};
          far.key_positions.list = View<const int64_t, 2>::Contiguous(positions.data(), {1, keys});
        }
        const std::vector<float> one = SlopeGradients(far, queries, keys, lse_gradient),
                                 other = SlopeGradients(near, queries, keys, lse_gradient);
        for (std::size_t h = 0; h < one.size(); ++h) {
          const float shared = lse_gradient ? static_cast<float>(kFar * queries) : 0.0F;
          // Weights are rounded by 2^-9 of themselves; dP is a few units, and there are so many keys and queries.
          EXPECT_NEAR(one[h] + shared, -other[h], lse_gradient ? 0.02F * shared : 0x1p-7F * static_cast<float>(queries * keys))
              << queries << " queries, head " << h << (listed ? ", listed" : "") << (lse_gradient ? ", gradient of lse" : "");
        }
      }
}

// The options outlive the vector that they were made of, and are copied.
TEST(SlopeBias, KeepsTheVectorThatItIsMadeOf) {
  Attention kept;
  {
    Attention made;
    made.slope_bias = SlopeBias{AlibiSlopes(4)};
    kept = made;
  }
  const std::vector<float> slopes{0.25F, 0.0625F, 0.015625F, 0.00390625F};
  const Table<1> table = View<const float, 1>::Contiguous(slopes.data(), {4});
  Attention viewed;
  viewed.slope_bias = SlopeBias{table};
  EXPECT_EQ(SlopeGradients(kept, 5, 9, false), SlopeGradients(viewed, 5, 9, false));
  for (const std::vector<double>& other : {AlibiSlopes(3), std::vector<double>{}}) {
    kept.slope_bias = SlopeBias{other};
    EXPECT_THROW(SlopeGradients(kept, 5, 9, false), InvalidArgument);
  }
}

HEED_ON_TARGETS(SlopeBiasOn);

}  // namespace
}  // namespace heed
