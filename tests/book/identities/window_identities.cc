// Of biases of tokens that stand in a window of two axes.
#include <cmath>

#include <ATen/ATen.h>

#include "heed/nn/window_biases.h"
#include "tests/book/identities/trial.h"

namespace heed::lab {
namespace {

Identity Numbered(const Probe& probe, const Pairs& pairs) {
  const auto numbers = [&](const at::Tensor& places) { return places.select(1, 0) * probe.side + places.select(1, 1); };
  return Compare("tokens by their numbers, row after row of the window: the same scores as by row and column",
                 probe.scores(numbers(pairs.queries), numbers(pairs.keys)), probe.scores(pairs.queries, pairs.keys));
}

}  // namespace

Identities SwinIdentities(const Probe& probe) {
  const auto& scheme = dynamic_cast<const nn::SwinBiasImpl&>(*probe.scheme);
  const Pairs pairs = PairsInSquare(probe.side);
  const at::Tensor offsets = pairs.queries - pairs.keys + (probe.side - 1);
  const at::Tensor rows = offsets.select(1, 0) * (2 * probe.side - 1) + offsets.select(1, 1);
  return {Compare("each offset of the window has its number: q.k + w[dy, dx, h]", probe.scores(pairs.queries, pairs.keys),
                  ProductOf(probe) + scheme.weight.index_select(0, rows)),
          MovedInSquare(probe, PairsInSquare(probe.side - 1), 1, 1), Numbered(probe, pairs)};
}

Identities SwinV2Identities(const Probe& probe) {
  const auto& scheme = dynamic_cast<const nn::SwinV2BiasImpl&>(*probe.scheme);
  const Pairs pairs = PairsInSquare(probe.side);
  const at::Tensor shares = (pairs.queries - pairs.keys).to(at::kDouble) / static_cast<double>(probe.side - 1);
  const at::Tensor logarithmic = shares.sign() * (8 * shares.abs()).log1p() / std::log(8.0);
  const at::Tensor units = (logarithmic.matmul(scheme.first_weight.t()) + scheme.first_bias).relu();
  return {Compare("a network of logarithmic offsets: q.k + 16 sigmoid(f(sign(d) log2(1 + 8|d|/(w - 1))/log2 8))",
                  probe.scores(pairs.queries, pairs.keys),
                  ProductOf(probe) + 16 * units.matmul(scheme.second_weight.t()).sigmoid()),
          MovedInSquare(probe, PairsInSquare(probe.side - 1), 1, 1), Numbered(probe, pairs)};
}

}  // namespace heed::lab
