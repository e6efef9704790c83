#include "tests/book/identities/trial.h"

#include <algorithm>
#include <set>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/core.h>
#include <torch/nn/module.h>

#include "book/positions/scores.h"

namespace heed::lab {

Probe MakeProbe(const PositionsOptions& options) {
  const at::NoGradGuard no_grad;
  Probe probe;
  const auto scheme = InDouble(*StartingScheme(options));
  probe.tokens = RandomQueryAndKey(HeadsOf(options), HeadWidthOf(options), options.seed);
  for (at::Tensor& parameter : dynamic_cast<torch::nn::Module&>(*scheme).parameters()) {
    if (parameter.any().item<bool>()) continue;
    const at::Tensor numbers = RandomQueryAndKey(1, parameter.numel(), options.seed + 1).query;
    parameter.copy_(numbers.view(parameter.sizes()));
  }
  probe.scheme = scheme;
  probe.steps = options.steps;
  probe.side = SideOf(options);
  probe.scores = [scheme, tokens = probe.tokens](const at::Tensor& queries, const at::Tensor& keys) {
    return ScoresAt(scheme, tokens, queries, keys);
  };
  return probe;
}

at::Tensor Pairs::Distances() const { return (queries - keys).to(at::kDouble).unsqueeze(1); }

Pairs PairsOf(const Probe& probe) {
  constexpr int64_t kMostPositions = 4096, kSpread = 8;
  const int64_t last = std::min(probe.steps, kMostPositions) - 1;
  std::vector<int64_t> positions;
  for (int64_t part = 0; part <= kSpread; ++part) positions.push_back(last * part / kSpread);
  for (int64_t position = 1; position <= std::min<int64_t>(3, last); ++position) positions.push_back(position);
  std::ranges::sort(positions);
  positions.erase(std::ranges::unique(positions).begin(), positions.end());
  const bool causal = NeedsCausal(*probe.scheme);
  std::vector<int64_t> queries, keys;
  for (const int64_t query : positions) {
    for (const int64_t key : positions) {
      if (causal && key > query) continue;
      queries.push_back(query), keys.push_back(key);
    }
  }
  return {at::tensor(queries, at::kLong), at::tensor(keys, at::kLong)};
}

Pairs PairsInSquare(int64_t side) {
  const std::set<int64_t> spread{0, std::min<int64_t>(1, side - 1), (side - 1) / 3, 2 * (side - 1) / 3, side - 1};
  const at::Tensor along = at::tensor(std::vector<int64_t>(spread.begin(), spread.end()), at::kLong);
  const at::Tensor places = at::cartesian_prod({along, along});
  return {places.repeat_interleave(places.size(0), 0), places.repeat({places.size(0), 1})};
}

at::Tensor ProductOf(const Probe& probe) {
  return (probe.tokens.query * probe.tokens.key).sum(1) * ScaleOf(*probe.scheme, probe.tokens.query.size(1));
}

Identity Compare(const std::string& what, const at::Tensor& got, const at::Tensor& expected) {
  constexpr double kBound = 1e-11;  // angles of some thousand radians are off by 1e-12
  const double largest = std::max(1.0, expected.abs().max().item<double>());
  return {what, (got - expected).abs().max().item<double>() / largest, kBound};
}

Identity Formula(const Probe& probe, const std::string& what, const std::function<at::Tensor(const at::Tensor&)>& expected) {
  const Pairs pairs = PairsOf(probe);
  return Compare(what, probe.scores(pairs.queries, pairs.keys), expected(pairs.Distances()));
}

Identity Moved(const Probe& probe) {
  const Pairs pairs = PairsOf(probe);
  constexpr int64_t kBy = 1000;
  return Compare("query and key both moved by 1000 positions: the same score",
                 probe.scores(pairs.queries + kBy, pairs.keys + kBy), probe.scores(pairs.queries, pairs.keys));
}

Identity MovedInSquare(const Probe& probe, const Pairs& pairs, int64_t rows, int64_t columns) {
  const at::Tensor by = at::tensor({rows, columns}, at::kLong);
  return Compare(fmt::format("query and key both moved by rows and columns ({}, {}): the same score", rows, columns),
                 probe.scores(pairs.queries + by, pairs.keys + by), probe.scores(pairs.queries, pairs.keys));
}

Identity Mirrored(const Probe& probe) {
  const Pairs pairs = PairsOf(probe);
  // So far along that the other side is there as well.
  const at::Tensor queries = pairs.queries + pairs.keys.max();
  const at::Tensor offsets = pairs.keys - pairs.queries;
  return Compare("a key as far behind the query as before it: the same score", probe.scores(queries, queries + offsets),
                 probe.scores(queries, queries - offsets));
}

Identity Beyond(const Probe& probe, int64_t reach) {
  const at::Tensor further = at::tensor({1, 2, 5, 1000}, at::kLong);
  const at::Tensor sides = at::cat({at::full_like(further, -1), at::full_like(further, 1)});
  const at::Tensor queries = at::full_like(sides, reach + 1000), ends = queries + sides * reach;
  return Compare("keys farther than the largest distance, " + std::to_string(reach) + ": the score of the last offset",
                 probe.scores(queries, ends + sides * further.repeat(2)), probe.scores(queries, ends));
}

}  // namespace heed::lab
