#include <algorithm>
#include <cstddef>
#include <iomanip>
#include <numeric>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "distributed/steps.h"
#include "refuse.h"

namespace heed::nn::distributed {
namespace {

// The busiest rank's share of the pairs over the mean, from which on balance outweighs bytes.
constexpr double kUneven = 1.25;

// What bytes follow from.
struct Sizes {
  int64_t batch, kv_heads, head_dim, value_dim;
  int64_t narrow, wide;  // bytes of an element of the operands, and of the log-sum-exp
  int64_t tables, rotation;

  // Bytes of what is added up.
  int64_t Sums(int rank, int ranks) const { return BytesOfSum(tables, rank, ranks) + BytesOfSum(rotation, rank, ranks); }
};

Sizes SizesOf(const Call& call, Operands& of, int64_t rotation) {
  int64_t tables = 0;
  for (std::size_t t = Operands::kOwnNames.size(); t < Operands::kCount; ++t)
    if (call.needs[t]) tables += of.All()[t]->numel();
  const at::ScalarType type = of.query.scalar_type();
  return {.batch = of.query.size(0),
          .kv_heads = of.key.size(1),
          .head_dim = of.query.size(3),
          .value_dim = of.value.size(3),
          .narrow = static_cast<int64_t>(c10::elementSize(type)),
          .wide = static_cast<int64_t>(c10::elementSize(AccumulatorType(type))),
          .tables = tables,
          .rotation = rotation};
}

// Widths of the gradients of keys and values that are wanted.
int64_t ReturnedWidth(const Call& call, const Sizes& sizes) {
  return (call.needs[1] ? sizes.head_dim : 0) + (call.needs[2] ? sizes.value_dim : 0);
}

void AddRingBytes(const Call& call, const Sizes& sizes, Plan& plan) {
  const int ranks = call.exchange.ranks();
  std::vector<int64_t> sent(static_cast<std::size_t>(ranks)), taken(sent.size());
  for (int at = 0; at < ranks; ++at) {
    for (int to = 0; to < ranks; ++to) {
      if (at == to) continue;
      for (const Piece piece : NeededKeys(call, to, at)) {
        sent[static_cast<std::size_t>(at)] += piece.length();
        taken[static_cast<std::size_t>(to)] += piece.length();
      }
    }
  }
  const int64_t rows = sizes.batch * sizes.kv_heads;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    const int64_t forward = sent[r] * rows * (sizes.head_dim + sizes.value_dim) * sizes.narrow;
    const int64_t home = taken[r] * rows * ReturnedWidth(call, sizes) * sizes.wide;
    plan.forward_bytes.push_back(forward);
    plan.backward_bytes.push_back(call.needs_gradient ? forward + home + sizes.Sums(rank, ranks) : 0);
  }
}

void AddAllToAllBytes(const Call& call, const Sizes& sizes, Plan& plan) {
  const DealtHeads& heads = call.heads;
  const int ranks = call.exchange.ranks();
  const int64_t others = ranks - 1, own_heads = heads.Queries(0).length(), figures = call.statistics ? 4 : 1;
  int64_t keys_read = 0;
  for (int rank = 0; rank < ranks; ++rank) keys_read += heads.Keys(rank).length();
  for (int rank = 0; rank < ranks; ++rank) {
    const int64_t queries = call.queries.length(rank), keys = call.keys.length(rank), own_keys = heads.Keys(rank).length();
    const int64_t queries_elsewhere = call.queries.total() - queries, keys_elsewhere = call.keys.total() - keys;
    const int64_t there = others * queries * own_heads * sizes.head_dim * sizes.narrow +
                          keys * (keys_read - own_keys) * (sizes.head_dim + sizes.value_dim) * sizes.narrow;
    const int64_t back = queries_elsewhere * own_heads * (sizes.value_dim * sizes.narrow + figures * sizes.wide);
    plan.forward_bytes.push_back(sizes.batch * (there + back));
    const int64_t arriving =
        others * queries * own_heads * (sizes.value_dim * sizes.narrow + (call.returns_lse ? sizes.wide : 0));
    int64_t leaving = call.needs[0] ? queries_elsewhere * own_heads * sizes.head_dim * sizes.narrow : 0;
    leaving += keys_elsewhere * own_keys * ReturnedWidth(call, sizes) * (heads.Shared() ? sizes.wide : sizes.narrow);
    plan.backward_bytes.push_back(call.needs_gradient ? sizes.batch * (arriving + leaving) + sizes.Sums(rank, ranks) : 0);
  }
}

// The pairs that each rank computes under the ring.
std::optional<std::vector<int64_t>> PairsOf(const Call& call) {
  const Order* order = call.whole.order();
  const AttentionOptions& options = call.whole.options();
  if (order == nullptr || options.tensors().mask.defined() || options.mask_program()) return std::nullopt;
  std::vector<int64_t> pairs;
  for (int rank = 0; rank < call.exchange.ranks(); ++rank) {
    int64_t own = 0;
    for (const HeldPiece& queries : call.queries.HeldBy(rank)) own += order->Pairs(queries.piece, {0, call.keys.total()});
    pairs.push_back(own);
  }
  return pairs;
}

std::string RingRefusal(const Call& call) {
  if (call.whole.options().empty_row() == EmptyRow::kUniform) return "empty_row='uniform' is a mean over values of all ranks";
  if (call.whole.options().tensors().contextual_position.defined()) return "Cope counts keys of all ranks";
  return {};
}

int64_t BusiestBytes(const Plan& plan) {
  int64_t most = 0;
  for (std::size_t r = 0; r < plan.forward_bytes.size(); ++r)
    most = std::max(most, plan.forward_bytes[r] + plan.backward_bytes[r]);
  return most;
}

}  // namespace

Plan PlanOf(const Call& call, Operands operands, int64_t rotation, Method method) {
  const Sizes sizes = SizesOf(call, operands, rotation);
  const std::optional<std::vector<int64_t>> pairs = PairsOf(call);
  const int64_t all_pairs = pairs ? std::accumulate(pairs->begin(), pairs->end(), int64_t{0}) : 0;
  const auto plan = [&](Method chosen, std::string reason) {
    Plan made{chosen, std::move(reason), {}, {}, pairs};
    (chosen == Method::kRing ? AddRingBytes : AddAllToAllBytes)(call, sizes, made);
    if (pairs && chosen == Method::kAllToAll) std::ranges::fill(*made.pairs, all_pairs / call.exchange.ranks());
    return made;
  };
  const std::string ring = RingRefusal(call), all_to_all = call.heads.Refusal();
  if (method != Method::kAuto) {
    const std::string& refusal = method == Method::kRing ? ring : all_to_all;
    if (!refusal.empty()) Refuse("method: '", method == Method::kRing ? "ring" : "all_to_all", "' is not possible: ", refusal);
    return plan(method, "requested");
  }
  if (!ring.empty() && !all_to_all.empty()) {
    Refuse("method: neither is possible: ring: ", ring, "; all_to_all: ", all_to_all);
  }
  if (call.exchange.ranks() == 1) {
    return plan(ring.empty() ? Method::kRing : Method::kAllToAll, "one rank sends nothing");
  }
  if (!all_to_all.empty()) return plan(Method::kRing, "all_to_all is not possible: " + all_to_all);
  if (!ring.empty()) return plan(Method::kAllToAll, "the ring is not possible: " + ring);
  const double busiest = pairs ? static_cast<double>(std::ranges::max(*pairs)) * call.exchange.ranks() /
                                     static_cast<double>(std::max<int64_t>(1, all_pairs))
                               : 1;
  if (busiest > kUneven) {
    std::ostringstream reason;
    reason << std::fixed << std::setprecision(2) << "under the ring the busiest rank computes " << busiest
           << " times the mean; a zigzag layout would balance it";
    return plan(Method::kAllToAll, reason.str());
  }
  Plan by_ring = plan(Method::kRing, {}), by_heads = plan(Method::kAllToAll, {});
  const int64_t ring_bytes = BusiestBytes(by_ring), heads_bytes = BusiestBytes(by_heads);
  Plan& chosen = heads_bytes < ring_bytes ? by_heads : by_ring;
  chosen.reason = c10::str("the busiest rank sends ", ring_bytes, " bytes under the ring, ", heads_bytes, " under all_to_all");
  return std::move(chosen);
}

}  // namespace heed::nn::distributed
