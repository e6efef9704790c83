#include "token_positions.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "attention_call.h"
#include "heed/error.h"
#include "program_tables.h"
#include "refuse.h"
#include "tensor_view.h"

namespace heed::nn {
namespace {

// The lengths [B] of sequences with these cumulative lengths, which end at `tokens`.
at::Tensor Counts(const char* name, const at::Tensor& starts, int64_t tokens) {
  if (!starts.defined()) Refuse(name, ": expected cumulative lengths of queries and of keys");
  at::Tensor counts = starts.diff();
  if (starts.numel() < 1 || starts[0].item<int64_t>() != 0 || counts.lt(0).any().item<bool>() ||
      starts[-1].item<int64_t>() != tokens) {
    Refuse(name, ": expected ascending cumulative lengths from 0 to the ", tokens, " tokens");
  }
  return counts;
}

int64_t Longest(const at::Tensor& counts) { return counts.numel() == 0 ? 0 : counts.max().item<int64_t>(); }

// Positions [T] of tokens that lie end to end; each sequence counts up from its first position, or reads its row of a list
// [1 or B, longest], where each position may be one of several axes.
at::Tensor Spread(const char* name, const at::Tensor& starts, const at::Tensor& counts, const at::Tensor& first,
                  const at::Tensor& list) {
  const at::Tensor sequence = at::repeat_interleave(counts);
  const at::Tensor token = at::arange(sequence.size(0), at::kLong) - starts.index_select(0, sequence);
  if (!list.defined()) return token + first.index_select(0, sequence);
  const int64_t longest = Longest(counts);
  if ((list.size(0) != 1 && list.size(0) != counts.size(0)) || list.size(1) != longest) {
    Refuse(name, ": expected [1 or ", counts.size(0), ", ", longest, "] for the packed sequences, got ", ShapeText(list));
  }
  std::vector<int64_t> all = list.sizes().vec();
  all[0] = counts.size(0);
  const at::Tensor positions = list.expand(all).index({sequence, token});
  return list.dim() == 3 ? positions.unsqueeze(0) : positions;
}

// Sequences that lie end to end: how many tokens each has, and where its first one stands, [B].
struct PackedCounts {
  at::Tensor queries, keys, first_query, first_key;
};

PackedCounts CountsOf(const AttentionOptions& options, int64_t q_len, int64_t kv_len) {
  const AttentionTensors& tensors = options.tensors();
  PackedCounts counts;
  counts.queries = Counts("packed_queries", tensors.packed_queries, q_len);
  counts.keys = Counts("packed_keys", tensors.packed_keys, kv_len);
  if (counts.queries.size(0) != counts.keys.size(0)) {
    Refuse("packed_keys: expected as many sequences as packed_queries has, ", counts.queries.size(0), ", got ",
           counts.keys.size(0));
  }
  counts.first_key = at::full_like(counts.keys, options.key_offset().value_or(0));
  const bool aligned = !options.query_offset() && options.causal() == Causal::kBottomRight;
  counts.first_query = aligned ? counts.first_key + counts.keys - counts.queries
                               : at::full_like(counts.queries, options.query_offset().value_or(0));
  return counts;
}

bool Packed(const AttentionTensors& tensors) { return tensors.packed_queries.defined() || tensors.packed_keys.defined(); }

at::Tensor Listed(const at::Tensor& on_axes, const at::Tensor& list) { return on_axes.defined() ? on_axes : list; }

CallPositions PackedPositions(const AttentionOptions& options, int64_t q_len, int64_t kv_len, const AxesPositions& on_axes) {
  const AttentionTensors& tensors = options.tensors();
  const PackedCounts counts = CountsOf(options, q_len, kv_len);
  return {
      Spread("query_positions", tensors.packed_queries, counts.queries, counts.first_query,
             Listed(on_axes.queries, tensors.query_positions)),
      Spread("key_positions", tensors.packed_keys, counts.keys, counts.first_key, Listed(on_axes.keys, tensors.key_positions))};
}

// Lists [B, longest] of sequences that count up; what is behind the end of one stands where its last token does.
at::Tensor CountedUp(const at::Tensor& counts, const at::Tensor& first) {
  const at::Tensor last = (counts - 1).clamp_min(0).unsqueeze(1);
  return first.unsqueeze(1) + at::minimum(at::arange(Longest(counts), at::kLong).unsqueeze(0), last);
}

// What positions of several axes have no meaning for.
void RefuseOrder(const AttentionOptions& options) {
  const auto refuse = [](const char* option, const char* why) {
    Refuse(option, ": not defined for a scheme whose positions have several axes, ", why);
  };
  if (options.causal() != Causal::kNone) refuse("causal", "which have no order");
  if (options.window().left != -1 || options.window().right != -1) refuse("window", "because it counts along one");
  if (options.return_statistics()) refuse("return_statistics", "because distances are those of one");
  const auto reads = [](const auto& program) { return program && program->Text().find("_position") != std::string::npos; };
  if (reads(options.score())) refuse("score", "because its positions are single numbers");
  if (reads(options.mask_program())) refuse("mask_program", "because its positions are single numbers");
}

// Takes a list of three dimensions.
at::Tensor TakeAxes(const char* name, const AttentionOptions& options, at::Tensor& list) {
  if (!list.defined() || list.dim() != 3) return {};
  const int64_t axes = options.position() ? options.position()->axes() : 1;
  const std::string own_name = name;
  if (axes < 2) {
    Refuse(own_name, ": expected shape [steps] or [batch, steps], got ", ShapeText(list),
           "; positions of several axes are for schemes that have axes");
  }
  if (list.size(2) != axes) {
    Refuse(own_name, ": expected shape [batch, steps, ", axes, "], got ", ShapeText(list));
  }
  return DensePositions(own_name, std::exchange(list, at::Tensor()));
}

// Adds a scheme's tensors to the options.
void AddTensorsOf(const AttentionPosition& scheme, AttentionOptions& options) {
  AttentionTensors own = scheme.tensors();
  const auto given = options.tensors().All();
  for (std::size_t t = 0; t < AttentionTensors::kCount; ++t) {
    const at::Tensor& tensor = *own.All()[t];
    if (!tensor.defined()) continue;
    if (given[t]->defined()) {
      const char* name = AttentionTensors::kNames[t];
      Refuse(name, ": position brings its own; give ", name, " or position, not both");
    }
    *given[t] = tensor;
  }
  if (own.slopes.defined()) options.slopes(own.slopes, scheme.symmetric());
}

}  // namespace

std::pair<at::Tensor, at::Tensor> AttentionPosition::rotate(const at::Tensor& query, const at::Tensor& key,
                                                            const TokenPositions& query_positions,
                                                            const TokenPositions& key_positions) const {
  if (!turns_once()) return {query, key};
  return {rotate_query(query, query_positions), rotate_key(key, key_positions)};
}

at::Tensor AttentionPosition::rotate_query(const at::Tensor&, const TokenPositions&) const {
  throw InvalidArgument("position: this scheme does not turn queries by themselves");
}

at::Tensor AttentionPosition::rotate_key(const at::Tensor&, const TokenPositions&) const {
  throw InvalidArgument("position: this scheme does not turn keys by themselves");
}

AttentionOptions WithScheme(const AttentionPosition& scheme, AttentionOptions options, const at::Tensor& query) {
  AddTensorsOf(scheme, options);
  if (const std::optional<PositionProgram> program = scheme.program()) {
    if (program->heads != 0 && program->heads != query.size(1)) {
      Refuse("position: the scheme is for ", program->heads, " heads, query has ", query.size(1));
    }
    PutBefore(program->program, program->tables, options);
  }
  if (!options.scale()) options.scale(scheme.default_scale(query.size(3)));
  return options;
}

AxesPositions TakeAxes(AttentionOptions& options) {
  AttentionTensors& tensors = options.tensors();
  const AxesPositions taken{TakeAxes("query_positions", options, tensors.query_positions),
                            TakeAxes("key_positions", options, tensors.key_positions)};
  if (options.position() && options.position()->axes() > 1) RefuseOrder(options);
  return taken;
}

CallPositions PositionsOf(const AttentionOptions& options, int64_t q_len, int64_t kv_len, const AxesPositions& on_axes) {
  const AttentionTensors& tensors = options.tensors();
  if (Packed(tensors)) return PackedPositions(options, q_len, kv_len, on_axes);
  const int64_t first_key = options.key_offset().value_or(0);
  const int64_t aligned = options.causal() == Causal::kBottomRight ? first_key + kv_len - q_len : 0;
  CallPositions positions{options.query_offset().value_or(aligned), first_key};
  const at::Tensor &queries = Listed(on_axes.queries, tensors.query_positions),
                   &keys = Listed(on_axes.keys, tensors.key_positions);
  if (queries.defined()) positions.queries = queries;
  if (keys.defined()) positions.keys = keys;
  return positions;
}

at::Tensor DensePositions(const std::string& name, const at::Tensor& positions) {
  CheckDense(name.c_str(), positions);
  if (positions.scalar_type() != at::kLong && positions.scalar_type() != at::kDouble) {
    Refuse(name, ": expected int64 or float64, got ", positions.scalar_type());
  }
  return Dense(name.c_str(), positions);
}

int64_t LengthOf(const at::Tensor& any) {
  const at::Tensor positions = DensePositions("positions", any);
  if (positions.numel() == 0) return 0;
  const auto largest = positions.max().item<double>();
  // From 2^53 on a double no longer counts.
  if (!(std::abs(largest) < 9007199254740992.0)) Refuse("positions: expected numbers below 2^53, got ", largest);
  return std::max<int64_t>(0, static_cast<int64_t>(std::floor(largest)) + 1);
}

void CheckList(const char* who, const char* name, const at::Tensor& list, int64_t batch, int64_t steps) {
  const bool row = list.defined() && (list.dim() == 1 || (list.dim() == 2 && (list.size(0) == 1 || list.size(0) == batch)));
  if (!row || list.size(-1) != steps)
    Refuse(who, ": ", name, ": expected shape [", steps, "] or [", batch, ", ", steps, "], got ", ShapeText(list));
  if (list.requires_grad()) Refuse(who, ": ", name, ": expected positions that require no gradient");
}

void PlaceTokens(const AttentionPosition& scheme, const AxesPositions& on_axes, int64_t q_len, int64_t kv_len,
                 AttentionOptions& options) {
  AttentionTensors& tensors = options.tensors();
  CallPositions positions;
  if (Packed(tensors)) {
    const PackedCounts counts = CountsOf(options, q_len, kv_len);
    const at::Tensor &queries = Listed(on_axes.queries, tensors.query_positions),
                     &keys = Listed(on_axes.keys, tensors.key_positions);
    positions.queries = queries.defined() ? queries : CountedUp(counts.queries, counts.first_query);
    positions.keys = keys.defined() ? keys : CountedUp(counts.keys, counts.first_key);
  } else {
    positions = PositionsOf(options, q_len, kv_len, on_axes);
  }
  const auto list = [&](const char* name, const TokenPositions& given, int64_t steps) {
    const TokenPositions placed = scheme.place(given, steps);
    const auto* places = std::get_if<at::Tensor>(&placed);
    const at::Tensor row = places != nullptr ? *places : at::arange(steps, at::kLong) + std::get<int64_t>(placed);
    return Dense(name, row.dim() == 1 ? row.unsqueeze(0) : row);
  };
  options.query_offset(std::nullopt).key_offset(std::nullopt);
  tensors.query_positions = list("query_positions", positions.queries, q_len);
  tensors.key_positions = list("key_positions", positions.keys, kv_len);
}

}  // namespace heed::nn
