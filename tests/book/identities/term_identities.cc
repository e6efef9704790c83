// Of schemes that add a bias or a function of the distance.
#include <cmath>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "heed/nn/score_functions.h"
#include "heed/nn/score_terms.h"
#include "heed/positions.h"
#include "tests/book/identities/trial.h"

namespace heed::lab {
namespace {

// Press et al. 2022, section 3, with float's rounding, which the module's slopes have.
at::Tensor PressSlopes(int64_t heads) {
  int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  std::vector<double> slopes;
  for (int64_t head = 0; head < heads; ++head) {
    const int64_t over = head - power;
    const double share = over < 0 ? static_cast<double>(head + 1) : static_cast<double>(over) + 0.5;
    slopes.push_back(std::exp2(-8 * share / static_cast<double>(power)));
  }
  return at::tensor(slopes, at::kFloat).to(at::kDouble);
}

// The rows of a sinusoidal encoding at these positions, [positions, 2 * frequencies].
at::Tensor Rows(const at::Tensor& positions, const at::Tensor& frequencies) {
  const at::Tensor angles = positions.to(at::kDouble).unsqueeze(1) * frequencies;
  return at::cat({angles.sin(), angles.cos()}, 1);
}

// 10000^(-(first + t) / count), t = 0 .. count - 1.
at::Tensor Falling(int64_t count, int64_t first) {
  const at::Tensor exponents = at::arange(first, first + count, at::kDouble) / -static_cast<double>(count);
  return at::pow(10000.0, exponents);
}

// Raffel et al. 2020, section 2.1; what an exact power falls to is left to no rounding.
int64_t T5Bucket(int64_t offset, int64_t buckets, int64_t max_distance) {
  const int64_t side = buckets / 2, first = offset > 0 ? side : 0, distance = std::abs(offset), exact = side / 2;
  if (distance < exact) return first + distance;
  const double share = std::log(static_cast<double>(distance) / static_cast<double>(exact)) /
                       std::log(static_cast<double>(max_distance) / static_cast<double>(exact));
  constexpr double kRounding = 1e-9;
  const auto step = static_cast<int64_t>(share * static_cast<double>(side - exact) + kRounding);
  return first + std::min(exact + step, side - 1);
}

int64_t ReachOf(const Probe& probe) { return (probe.scheme->tensors().relative_bias.size(1) - 1) / 2; }

}  // namespace

Identities AlibiIdentities(const Probe& probe) {
  const auto expected = [&](const at::Tensor& distances) {
    return ProductOf(probe) - PressSlopes(probe.tokens.query.size(0)) * distances.abs();
  };
  return {Formula(probe, "the score falls by slope 2^(-8(h + 1)/H) a position: q.k - slope |i - j|", expected), Moved(probe),
          Mirrored(probe)};
}

Identities RelativeIdentities(const Probe& probe) {
  const auto& scheme = dynamic_cast<const nn::RelativeBiasImpl&>(*probe.scheme);
  const int64_t reach = ReachOf(probe);
  const auto expected = [&](const at::Tensor& distances) {
    const at::Tensor rows = (reach - distances.squeeze(1).clamp(-reach, reach)).to(at::kLong);
    return ProductOf(probe) + scheme.relative_bias.t().index_select(0, rows);
  };
  return {Formula(probe, "each offset has its number: q.k + b[h, j - i]", expected), Moved(probe), Beyond(probe, reach)};
}

Identities T5Identities(const Probe& probe) {
  const auto& scheme = dynamic_cast<const nn::T5BiasImpl&>(*probe.scheme);
  const int64_t reach = ReachOf(probe);
  const auto expected = [&](const at::Tensor& distances) {
    std::vector<int64_t> rows;
    for (int64_t pair = 0; pair < distances.size(0); ++pair) {
      const auto offset = -static_cast<int64_t>(distances[pair][0].item<double>());
      rows.push_back(T5Bucket(offset, scheme.weight.size(0), reach));
    }
    return ProductOf(probe) + scheme.weight.index_select(0, at::tensor(rows, at::kLong));
  };
  return {Formula(probe, "offsets of a bucket share its number: q.k + w[bucket(j - i), h]", expected), Moved(probe),
          Beyond(probe, reach)};
}

Identities KerpleIdentities(const Probe& probe) {
  const auto& scheme = dynamic_cast<const nn::KerpleImpl&>(*probe.scheme);
  const auto expected = [&](const at::Tensor& distances) {
    return ProductOf(probe) - scheme.rate.clamp_min(0.01) * (scheme.scale.clamp_min(0.01) * distances.abs()).log1p();
  };
  return {Formula(probe, "the score falls by a logarithm: q.k - rate log(1 + scale |i - j|)", expected), Moved(probe),
          Mirrored(probe)};
}

Identities KerplePowerIdentities(const Probe& probe) {
  const auto& scheme = dynamic_cast<const nn::KerpleImpl&>(*probe.scheme);
  const auto expected = [&](const at::Tensor& distances) {
    return ProductOf(probe) - scheme.scale.clamp_min(0.01) * distances.abs().pow(scheme.rate.clamp(0.01, 2.0));
  };
  // Its scales are 0.01 at least, where the slopes of many heads are not.
  const int64_t heads = probe.tokens.query.size(0);
  nn::Kerple linear(heads, nn::KerpleKind::kPower);
  linear->to(at::kDouble);
  const at::NoGradGuard no_grad;
  linear->rate.fill_(1.0);
  linear->scale.copy_(PressSlopes(heads).clamp_min(0.01));
  const Pairs pairs = PairsOf(probe);
  const at::Tensor fallen = ProductOf(probe) - linear->scale * pairs.Distances().abs();
  return {Formula(probe, "the score falls by a power: q.k - scale |i - j|^rate", expected),
          Compare("of rate 1 and ALiBi's slopes it is ALiBi", ScoresAt(linear.ptr(), probe.tokens, pairs.queries, pairs.keys),
                  fallen),
          Moved(probe), Mirrored(probe)};
}

Identities SandwichIdentities(const Probe& probe) {
  constexpr int64_t kFrequencies = 64;  // of encodings of width 128
  const int64_t heads = probe.tokens.query.size(0);
  const at::Tensor shares = heads / (8 * at::arange(1, heads + 1, at::kDouble)), frequencies = Falling(kFrequencies, 1);
  const Pairs pairs = PairsOf(probe);
  const at::Tensor products = (Rows(pairs.queries, frequencies) * Rows(pairs.keys, frequencies)).sum(1, /*keepdim=*/true);
  return {Compare("the bias is the product of two rows of sines and cosines, less that of a row with itself, over 8(h + 1)/H",
                  probe.scores(pairs.queries, pairs.keys), ProductOf(probe) + (products - kFrequencies) * shares),
          Moved(probe), Mirrored(probe)};
}

Identities FireIdentities(const Probe& probe) {
  const auto& scheme = dynamic_cast<const nn::FireImpl&>(*probe.scheme);
  constexpr double kThreshold = 512;
  const double reach = kThreshold * std::fabs(scheme.multiplier.item<double>());
  const at::Tensor c = scheme.c.abs();
  const auto expected = [&](const Pairs& pairs) {
    const at::Tensor limit = (c * pairs.queries.to(at::kDouble).unsqueeze(1).clamp_min(reach)).log1p();
    const at::Tensor x = (c * pairs.Distances().abs()).log1p() / (limit + 1e-6);
    const at::Tensor units = (x * scheme.first_weight + scheme.first_bias).relu();
    return ProductOf(probe) + units.matmul(scheme.second_weight.t()) + scheme.second_bias;
  };
  const Pairs near = PairsOf(probe);
  const Pairs far{near.queries + 5000, near.keys + 2000};
  // A query beyond the threshold looks the whole way back to the first token, which is 1 but for the 1e-6 in the divisor; what
  // that may change is at most this, by the network's steepest slope.
  const auto beyond = static_cast<int64_t>(std::ceil(reach)) + 1;
  const at::Tensor queries = at::tensor({beyond, beyond + 100, 3 * beyond, 100 * beyond}, at::kLong);
  const at::Tensor whole = probe.scores(queries, at::zeros_like(queries));
  Identity first = Compare("the first token, seen by any query beyond the threshold: the same score", whole, whole[0]);
  const double steepest = scheme.second_weight.abs().matmul(scheme.first_weight.abs()).max().item<double>();
  first.bound += steepest * 1e-6 / (c * static_cast<double>(beyond)).log1p().item<double>();
  return {Compare("the score is f of the distance as a part of the way back: q.k + f(psi(|i - j|)/psi(max(i, L)))",
                  probe.scores(near.queries, near.keys), expected(near)),
          Compare("the same of queries beyond the threshold", probe.scores(far.queries, far.keys), expected(far)), first,
          Mirrored(probe)};
}

Identities SinusoidalBiasIdentities(const Probe& probe) {
  const auto& scheme = dynamic_cast<const nn::SinusoidalBiasImpl&>(*probe.scheme);
  const int64_t count = scheme.cosine.size(1), heads = probe.tokens.query.size(0);
  const at::Tensor frequencies = Falling(count, 0);
  const auto expected = [&](const at::Tensor& distances) {
    const at::Tensor angles = distances * frequencies;
    return ProductOf(probe) + angles.cos().matmul(scheme.cosine.t()) + angles.sin().matmul(scheme.sine.t());
  };
  nn::SinusoidalBias even(heads, count);
  even->to(at::kDouble);
  const at::NoGradGuard no_grad;
  even->cosine.fill_(1.0);
  const Pairs pairs = PairsOf(probe);
  const at::Tensor products = (Rows(pairs.queries, frequencies) * Rows(pairs.keys, frequencies)).sum(1, /*keepdim=*/true);
  return {Formula(probe, "the bias is a sum of waves of the offset: q.k + a cos(w(i - j)) + b sin(w(i - j))", expected),
          Compare("of cosines alone, all 1, it is the product of two rows of the sinusoidal encoding",
                  ScoresAt(even.ptr(), probe.tokens, pairs.queries, pairs.keys), ProductOf(probe) + products),
          Moved(probe)};
}

Identities TemperatureIdentities(const Probe& probe) {
  const auto& scheme = dynamic_cast<const nn::TemperatureImpl&>(*probe.scheme);
  const auto expected = [&](const at::Tensor& distances) {
    return (ProductOf(probe) * scheme.log_scale.exp()).expand({distances.size(0), -1});
  };
  const Pairs pairs = PairsOf(probe);
  return {Formula(probe, "every score is multiplied by its head's number, wherever query and key stand: q.k exp(t)", expected),
          Compare("query and key change their places: the same score", probe.scores(pairs.keys, pairs.queries),
                  probe.scores(pairs.queries, pairs.keys))};
}

}  // namespace heed::lab
