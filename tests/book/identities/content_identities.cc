// Of schemes in which queries and keys meet positions.
#include <cmath>
#include <vector>

#include <ATen/ATen.h>

#include "heed/nn/score_terms.h"
#include "tests/book/identities/trial.h"

namespace heed::lab {
namespace {

// Scale times query . row, [pairs, heads]; rows [pairs, heads, head width] or, one for all heads, [pairs, 1, head width].
at::Tensor Met(const Probe& probe, const at::Tensor& token, const at::Tensor& rows) {
  return (token * rows).sum(2) * ScaleOf(*probe.scheme, token.size(1));
}

// 10000^(-2t / width), t = 0 .. count - 1.
at::Tensor Frequencies(int64_t count, int64_t width) {
  return at::pow(10000.0, at::arange(count, at::kDouble) * (-2.0 / static_cast<double>(width)));
}

// Keys [pairs, heads, columns] that are turned by -distance alone, where columns t and t + half of them are a pair; columns'
// terms are multiplied by `fade` [pairs, 1, pairs of columns].
at::Tensor Turned(const at::Tensor& key, const at::Tensor& distances, const at::Tensor& fade) {
  const int64_t width = key.size(1), half = width / 2;
  const at::Tensor angles = -(distances * Frequencies(half, width)).unsqueeze(1);
  const at::Tensor a = key.narrow(1, 0, half), b = key.narrow(1, half, half);
  return at::cat({(a * angles.cos() - b * angles.sin()) * fade, (b * angles.cos() + a * angles.sin()) * fade}, 2);
}

// By its own width: [rows, width] to [rows, heads, head width].
at::Tensor ByHead(const Probe& probe, const at::Tensor& rows) {
  return rows.view({-1, probe.tokens.query.size(0), probe.tokens.query.size(1)});
}

int64_t ReachOf(const at::Tensor& table, int64_t dimension) { return (table.size(dimension) - 1) / 2; }

}  // namespace

Identities RotaryIdentities(const Probe& probe) {
  const at::Tensor unfaded = at::ones({1, 1, 1}, at::kDouble);
  const auto expected = [&](const at::Tensor& distances) {
    return Met(probe, probe.tokens.query, Turned(probe.tokens.key, distances, unfaded));
  };
  return {Formula(probe, "two rotations are one by the offset: (R(i) q).(R(j) k) = q.(R(j - i) k)", expected), Moved(probe)};
}

Identities AxialRotaryIdentities(const Probe& probe) {
  const at::Tensor unfaded = at::ones({1, 1, 1}, at::kDouble);
  const std::vector<at::Tensor> halves = probe.tokens.key.chunk(2, 1);
  const Pairs pairs = PairsInSquare(probe.side);
  const at::Tensor distances = (pairs.queries - pairs.keys).to(at::kDouble);
  const at::Tensor turned = at::cat({Turned(halves[0], distances.narrow(1, 0, 1), unfaded),  //
                                     Turned(halves[1], distances.narrow(1, 1, 1), unfaded)},
                                    2);
  return {Compare("two rotations are one by the offset, of each half of the columns along its own axis",
                  probe.scores(pairs.queries, pairs.keys), Met(probe, probe.tokens.query, turned)),
          MovedInSquare(probe, pairs, 1000, 300)};
}

Identities XPosIdentities(const Probe& probe) {
  const int64_t width = probe.tokens.key.size(1);
  const auto expected = [&](const at::Tensor& distances) {
    const at::Tensor pairs = at::arange(width / 2, at::kDouble);
    const at::Tensor rates = (2 * pairs + 0.4 * static_cast<double>(width)) / (1.4 * static_cast<double>(width));
    const at::Tensor fade = rates.pow(distances / 512.0).unsqueeze(1);
    return Met(probe, probe.tokens.query, Turned(probe.tokens.key, distances, fade));
  };
  return {Formula(probe, "a rotation by the offset, times zeta^((i - j)/512) for each pair of columns", expected),
          Moved(probe)};
}

Identities ShawIdentities(const Probe& probe) {
  const at::Tensor keys = probe.scheme->tensors().content_keys;
  const int64_t reach = ReachOf(keys, 0);
  const auto expected = [&](const at::Tensor& distances) {
    const at::Tensor rows = (reach - distances.squeeze(1).clamp(-reach, reach)).to(at::kLong);
    return ProductOf(probe) + Met(probe, probe.tokens.query, keys.index_select(0, rows).unsqueeze(1));
  };
  return {Formula(probe, "the key has its offset's vector added: q.(k + a[j - i])", expected), Moved(probe),
          Beyond(probe, reach)};
}

Identities TransformerXlIdentities(const Probe& probe) {
  const auto& scheme = dynamic_cast<const nn::TransformerXLImpl&>(*probe.scheme);
  const int64_t reach = ReachOf(scheme.tensors().transformer_xl_positions, 1), width = scheme.projection.size(1);
  const auto expected = [&](const at::Tensor& distances) {
    const at::Tensor angles = distances.clamp(-reach, reach) * Frequencies((width + 1) / 2, width);
    const at::Tensor rows = at::cat({angles.sin(), angles.narrow(1, 0, width / 2).cos()}, 1).matmul(scheme.projection.t());
    return Met(probe, probe.tokens.query + scheme.content_bias, probe.tokens.key.unsqueeze(0)) +
           Met(probe, probe.tokens.query + scheme.position_bias, ByHead(probe, rows));
  };
  return {Formula(probe, "content and sinusoids of the distance: (q + u).k + (q + v).W r(i - j)", expected), Moved(probe),
          Beyond(probe, reach)};
}

Identities DebertaIdentities(const Probe& probe) {
  const auto& scheme = dynamic_cast<const nn::DebertaImpl&>(*probe.scheme);
  const int64_t span = scheme.embeddings.size(0) / 2;
  const auto expected = [&](const at::Tensor& distances) {
    const at::Tensor rows = (distances.squeeze(1) + span).clamp(0, 2 * span - 1).to(at::kLong);
    const at::Tensor embedded = scheme.embeddings.index_select(0, rows);
    const auto projected = [&](const torch::nn::Linear& linear) {
      return ByHead(probe, at::linear(embedded, linear->weight, linear->bias));
    };
    return ProductOf(probe) + Met(probe, probe.tokens.query, projected(scheme.key_projection)) +
           Met(probe, probe.tokens.key, projected(scheme.query_projection));
  };
  return {Formula(probe, "content and offset both ways: q.k + q.K e[i - j] + k.Q e[i - j]", expected), Moved(probe),
          Beyond(probe, span)};
}

Identities CopeIdentities(const Probe& probe) {
  const at::Tensor table = dynamic_cast<const nn::CopeImpl&>(*probe.scheme).table;
  const int64_t last = table.size(0) - 1;
  const at::Tensor products = probe.tokens.query.matmul(table.t());  // [heads, positions]
  const auto expected = [&](const at::Tensor& distances) {
    const at::Tensor product = ProductOf(probe);
    const at::Tensor counts = (distances.clamp_min(0) + 1) * product.sigmoid();
    const at::Tensor positions = counts.clamp_max(static_cast<double>(last)).t();  // [heads, pairs]
    const at::Tensor low = positions.floor().to(at::kLong), high = (low + 1).clamp_max(last), share = positions - low;
    return product + ((1 - share) * products.gather(1, low) + share * products.gather(1, high)).t();
  };
  return {Formula(probe, "n keys of one score stand n sigmoids back: q.k + q.E[n sigmoid(q.k)], between rows by their share",
                  expected),
          Moved(probe)};
}

}  // namespace heed::lab
