#include "attention_call.h"

#include <algorithm>
#include <limits>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "heed/error.h"
#include "program_tables.h"
#include "refuse.h"
#include "tensor_view.h"

namespace heed::nn {
namespace {

void CheckOperand(const char* name, const at::Tensor& tensor, at::ScalarType type) {
  if (tensor.dim() != 4) {
    Refuse(name, ": expected 4 dimensions [batch, heads, steps, width], got shape ", ShapeText(tensor));
  }
  const at::ScalarType own = tensor.scalar_type();
  if (own != at::kFloat && own != at::kDouble && own != at::kBFloat16 && own != at::kHalf) {
    Refuse(name, ": expected float32, float64, bfloat16 or float16, got ", own);
  }
  if (own != type) {
    Refuse(name, ": expected ", type, " as query has, got ", own);
  }
}

void CheckRowNumbers(const char* name, const at::Tensor& tensor, at::ScalarType type) {
  if (tensor.dim() != 3 || tensor.scalar_type() != type) {
    Refuse(name, ": expected shape [batch, heads, steps] in ", type, ", got ", ShapeText(tensor), " ", tensor.scalar_type());
  }
}

void CheckFloating(const char* name, const at::Tensor& tensor) {
  if (!tensor.is_floating_point()) {
    Refuse(name, ": expected a floating-point tensor, got ", tensor.scalar_type());
  }
}

// [.., Nk] whose keys lie side by side, so that the engine reads vectors of them: transformers' T5 makes a bias [Nq, Nk, H] and
// turns it, and every batch row would gather it key by key. What is one number for many pairs stays that, unless each of them
// has a gradient of its own.
at::Tensor KeysSideBySide(const at::Tensor& pairs) {
  if (pairs.stride(3) < 2 || pairs.size(3) < 2) return pairs;
  if (pairs.requires_grad() && at::GradMode::is_enabled()) return pairs.contiguous();
  at::Tensor own = pairs;
  for (int64_t d = 0; d < 3; ++d)
    if (pairs.stride(d) == 0) own = own.narrow(d, 0, std::min<int64_t>(1, pairs.size(d)));
  return own.contiguous().expand(pairs.sizes());
}

// [..] -> [1, .., 1, ..] with four dimensions, after checking that it broadcasts over pairs of queries and keys.
at::Tensor OverPairs(const char* name, const at::Tensor& tensor) {
  if (tensor.dim() > 4) {
    Refuse(name, ": expected at most 4 dimensions, broadcastable to [B, Hq, Nq, Nk], got shape ", ShapeText(tensor));
  }
  at::Tensor result = tensor;
  while (result.dim() < 4) result = result.unsqueeze(0);
  return KeysSideBySide(result);
}

// Numbers in the accumulator's type. What is finite stays finite: a mask made of float64's lowest number hides nothing.
at::Tensor Accumulated(const at::Tensor& numbers, const at::Tensor& query) {
  const at::ScalarType type = AccumulatorType(query.scalar_type());
  if (numbers.scalar_type() != at::kDouble || type == at::kDouble) return numbers.to(type);
  constexpr double kMost = std::numeric_limits<float>::max();
  return at::where(at::isinf(numbers), numbers, numbers.clamp(-kMost, kMost)).to(type);
}

at::Tensor Table(const char* name, const at::Tensor& tensor, int64_t dims, const at::Tensor& query) {
  if (!tensor.defined()) return tensor;
  CheckFloating(name, tensor);
  if (tensor.dim() != dims) {
    Refuse(name, ": expected ", dims, " dimensions, got shape ", ShapeText(tensor));
  }
  return Accumulated(tensor, query);
}

at::Tensor RelativeTable(const at::Tensor& table, const at::Tensor& query) {
  at::Tensor typed = Table("relative_bias", table, 2, query);
  const int64_t heads = query.size(1);
  if (!typed.defined()) return typed;
  if (typed.size(0) != 1 && typed.size(0) != heads) {
    Refuse("relative_bias: expected shape [", heads, " or 1, 2 * max_distance + 1], got ", ShapeText(table), " with query ",
           ShapeText(query));
  }
  return typed.expand({heads, -1});
}

// [query heads, width], with rows by clipped offset between them where dims is 3.
at::Tensor TableOfHeads(const char* name, const at::Tensor& table, int64_t dims, const at::Tensor& query) {
  at::Tensor typed = Table(name, table, dims, query);
  if (!typed.defined()) return typed;
  const bool offsets = dims == 3;
  const int64_t heads = query.size(1), width = query.size(3);
  if (typed.size(0) == heads && typed.size(-1) == width && (!offsets || typed.size(1) % 2 == 1)) return typed;
  Refuse(name, ": expected shape [", heads, offsets ? ", 2 * max_distance + 1, " : ", ", width, "], got ", ShapeText(table),
         " with query ", ShapeText(query));
}

// [Hq], or [B or 1, Hq or 1, Nq or 1], as [B or 1, Hq, Nq or 1]. The engine checks the rest.
at::Tensor SinksOfRows(const at::Tensor& sinks, const at::Tensor& query) {
  if (!sinks.defined()) return sinks;
  CheckFloating("sinks", sinks);
  const int64_t heads = query.size(1);
  const bool by_head = sinks.dim() == 1 && sinks.size(0) == heads;
  if (!by_head && !(sinks.dim() == 3 && (sinks.size(1) == heads || sinks.size(1) == 1)))
    Refuse("sinks: expected shape [", heads, "] or [batch or 1, ", heads, " or 1, steps or 1], got ", ShapeText(sinks),
           " with query ", ShapeText(query));
  const at::Tensor typed = Accumulated(sinks, query);
  return by_head ? typed.reshape({1, heads, 1}) : typed.expand({-1, heads, -1});
}

// The numbers of a program's tables, end to end.
at::Tensor EndToEnd(const char* name, const at::Tensor& numbers, const at::Tensor& query) {
  const at::Tensor typed = Table(name, numbers, 1, query);
  return typed.defined() ? typed.contiguous() : typed;
}
at::Tensor WholesEndToEnd(const char* name, const at::Tensor& numbers) {
  if (!numbers.defined()) return numbers;
  if (numbers.dim() != 1 || numbers.scalar_type() != at::kLong)
    Refuse(name, ": expected int64 with 1 dimension, got ", ShapeText(numbers), " ", numbers.scalar_type());
  return numbers.contiguous();
}

void CheckLengths(const char* name, const at::Tensor& lengths, bool per_query) {
  if (!lengths.defined()) return;
  if (lengths.scalar_type() != at::kLong) {
    Refuse(name, ": expected int64, got ", lengths.scalar_type());
  }
  if (lengths.dim() != 1 && !(per_query && lengths.dim() == 2)) {
    Refuse(name, per_query ? ": expected shape [batch] or [batch, queries], got " : ": expected shape [batch], got ",
           ShapeText(lengths));
  }
}

at::Tensor PositionList(const char* name, const at::Tensor& positions) {
  if (!positions.defined()) return positions;
  if (positions.scalar_type() != at::kLong && positions.scalar_type() != at::kDouble) {
    Refuse(name, ": expected int64 or float64, got ", positions.scalar_type());
  }
  if (positions.dim() != 1 && positions.dim() != 2) {
    Refuse(name, ": expected shape [steps] or [batch, steps], got ", ShapeText(positions));
  }
  return positions.dim() == 1 ? positions.unsqueeze(0) : positions;
}

Lengths LengthsOf(const at::Tensor& lengths) {
  Lengths result;
  if (lengths.defined()) result.values = ViewOf<const int64_t, 2>(lengths.dim() == 1 ? lengths.unsqueeze(1) : lengths);
  return result;
}

Positions PositionsOf(const std::optional<int64_t>& offset, const at::Tensor& list) {
  Positions result;
  result.offset = offset;
  if (!list.defined()) return result;
  if (list.scalar_type() == at::kLong) {
    result.list = ViewOf<const int64_t, 2>(list);
  } else {
    result.list = ViewOf<const double, 2>(list);
  }
  return result;
}

}  // namespace

void CheckAttentionInputs(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
  CheckOperand("query", query, query.scalar_type());
  CheckOperand("key", key, query.scalar_type());
  CheckOperand("value", value, query.scalar_type());
}

at::Tensor DenseIndices(const char* name, const at::Tensor& indices) {
  if (!indices.defined()) return indices;
  if (indices.dim() != 1 || indices.scalar_type() != at::kLong) {
    Refuse(name, ": expected int64 indices [n], got ", ShapeText(indices), " ", indices.scalar_type());
  }
  return Dense(name, indices);
}

void CheckSavedTensors(const at::Tensor& d_output, const at::Tensor& d_lse, const at::Tensor& query, const at::Tensor& output,
                       const at::Tensor& lse) {
  const at::ScalarType type = query.scalar_type(), accumulator = AccumulatorType(type);
  if (d_output.defined()) CheckOperand("d_output", d_output, type);
  CheckOperand("output", output, type);
  if (d_lse.defined()) CheckRowNumbers("d_lse", d_lse, accumulator);
  CheckRowNumbers("lse", lse, accumulator);
}

void CheckSavedStatistics(const at::Tensor& d_statistics, const at::Tensor& statistics, const at::Tensor& largest_key,
                          const at::Tensor& lse) {
  if (!d_statistics.defined()) return;
  const auto check = [&](const char* name, const at::Tensor& tensor, at::ScalarType type, int64_t dims) {
    if (tensor.defined() && tensor.dim() == dims && (dims == 3 || tensor.sym_size(0) == 3) && tensor.scalar_type() == type)
      return;
    Refuse(name, ": expected shape [", dims == 4 ? "3, " : "", "batch, heads, steps] in ", type, " beside d_statistics, got ",
           tensor.defined() ? ShapeText(tensor) + " " + at::toString(tensor.scalar_type()) : "nothing");
  };
  check("d_statistics", d_statistics, lse.scalar_type(), 4);
  check("statistics", statistics, lse.scalar_type(), 4);
  check("largest_key", largest_key, at::kLong, 3);
}

at::Tensor PresentCorrection(const at::Tensor& correction, const at::Tensor& lse) {
  if (!correction.defined() || (correction.dim() == 1 && correction.sym_numel() == 0)) return {};
  CheckRowNumbers("correction", correction, lse.scalar_type());
  return correction;
}

at::Tensor PresentRemainder(const at::Tensor& remainder) {
  if (!remainder.defined() || (remainder.dim() == 1 && remainder.sym_numel() == 0)) return {};
  if (remainder.dim() != 4 || remainder.scalar_type() != at::kBFloat16) {
    Refuse("remainder: expected bfloat16 [batch, heads, steps, width], or nothing, got ", ShapeText(remainder), " ",
           remainder.scalar_type());
  }
  return remainder;
}

at::ScalarType AccumulatorType(at::ScalarType type) { return type == at::kDouble ? at::kDouble : at::kFloat; }

AttentionTensors ResolvedPlaces(const AttentionTensors& given) {
  AttentionTensors resolved = given;
  const auto all = resolved.All();
  for (std::size_t t = 0; t < all.size(); ++t)
    if (all[t]->defined()) *all[t] = Dense(AttentionTensors::kNames[t], *all[t]);
  CheckLengths("query_lengths", resolved.query_lengths, false);
  CheckLengths("key_lengths", resolved.key_lengths, true);
  CheckLengths("prefix_lengths", resolved.prefix_lengths, false);
  CheckLengths("packed_queries", resolved.packed_queries, false);
  CheckLengths("packed_keys", resolved.packed_keys, false);
  resolved.query_positions = PositionList("query_positions", resolved.query_positions);
  resolved.key_positions = PositionList("key_positions", resolved.key_positions);
  return resolved;
}

AttentionTensors Resolved(const AttentionTensors& given, const at::Tensor& query) {
  AttentionTensors resolved = ResolvedPlaces(given);
  if (resolved.bias.defined()) {
    CheckFloating("bias", resolved.bias);
    resolved.bias = OverPairs("bias", resolved.bias);
    // What is narrower than the accumulator is widened tile by tile, unless a gradient comes back through the conversion.
    const bool narrow = resolved.bias.scalar_type() == at::kBFloat16 || resolved.bias.scalar_type() == at::kHalf;
    if (!narrow || AccumulatorType(query.scalar_type()) == at::kDouble || resolved.bias.requires_grad())
      resolved.bias = Accumulated(resolved.bias, query);
  }
  if (resolved.mask.defined()) {
    resolved.mask = OverPairs("mask", resolved.mask);
    if (resolved.mask.scalar_type() != at::kBool) {
      Refuse("mask: expected bool, True where a query may look, got ", resolved.mask.scalar_type(),
             "; numbers to add go into bias");
    }
  }
  resolved.relative_bias = RelativeTable(resolved.relative_bias, query);
  resolved.slopes = Table("slopes", resolved.slopes, 1, query);
  resolved.content_keys = Table("content_keys", resolved.content_keys, 2, query);
  resolved.content_values = Table("content_values", resolved.content_values, 2, query);
  const bool by_head = resolved.content_queries.defined() && resolved.content_queries.dim() == 3;
  resolved.content_queries = by_head ? TableOfHeads("content_queries", resolved.content_queries, 3, query)
                                     : Table("content_queries", resolved.content_queries, 2, query);
  resolved.transformer_xl_positions = TableOfHeads("transformer_xl_positions", resolved.transformer_xl_positions, 3, query);
  resolved.transformer_xl_bias = TableOfHeads("transformer_xl_bias", resolved.transformer_xl_bias, 2, query);
  resolved.contextual_position = Table("contextual_position", resolved.contextual_position, 2, query);
  resolved.score_reals = EndToEnd("score_reals", resolved.score_reals, query);
  resolved.sinks = SinksOfRows(resolved.sinks, query);
  resolved.score_wholes = WholesEndToEnd("score_wholes", resolved.score_wholes);
  resolved.mask_reals = EndToEnd("mask_reals", resolved.mask_reals, query);
  resolved.mask_wholes = WholesEndToEnd("mask_wholes", resolved.mask_wholes);
  resolved.column_decay = Table("column_decay", resolved.column_decay, 1, query);
  if (resolved.column_decay.defined() && resolved.column_decay.requires_grad() && at::GradMode::is_enabled())
    throw InvalidArgument("column_decay: expected rates that require no gradient, which they do not get");
  if (resolved.transformer_xl_bias.defined() && !resolved.transformer_xl_positions.defined()) {
    Refuse("transformer_xl_bias: expected transformer_xl_positions beside it, got shape ",
           ShapeText(resolved.transformer_xl_bias), " alone");
  }
  return resolved;
}

namespace {

template <class A>
BiasValues BiasValuesOf(const at::Tensor& bias) {
  if (bias.scalar_type() == at::kBFloat16) return ViewOf<const BFloat16, 4>(bias);
  if (bias.scalar_type() == at::kHalf) return ViewOf<const Float16, 4>(bias);
  return ViewOf<const A, 4>(bias);
}

}  // namespace

template <class A>
Attention EngineOptions(const AttentionOptions& options) {
  const AttentionTensors& tensors = options.tensors();
  Attention attention;
  attention.scale = options.scale();
  attention.causal = options.causal();
  attention.window = options.window();
  attention.query_lengths = LengthsOf(tensors.query_lengths);
  attention.key_lengths = LengthsOf(tensors.key_lengths);
  attention.prefix_lengths = LengthsOf(tensors.prefix_lengths);
  attention.packed = {ViewOf<const int64_t, 1>(tensors.packed_queries), ViewOf<const int64_t, 1>(tensors.packed_keys)};
  attention.query_positions = PositionsOf(options.query_offset(), tensors.query_positions);
  attention.key_positions = PositionsOf(options.key_offset(), tensors.key_positions);
  if (tensors.mask.defined()) attention.mask = Mask{ViewOf<const bool, 4>(tensors.mask)};
  if (tensors.bias.defined()) attention.bias = Bias{BiasValuesOf<A>(tensors.bias)};
  if (tensors.relative_bias.defined()) attention.relative_bias = heed::RelativeBias{ViewOf<const A, 2>(tensors.relative_bias)};
  if (tensors.slopes.defined()) attention.slope_bias = SlopeBias{ViewOf<const A, 1>(tensors.slopes), options.symmetric()};
  if (tensors.content_keys.defined() || tensors.content_values.defined() || tensors.content_queries.defined()) {
    attention.content_bias.emplace();
    if (tensors.content_keys.defined()) attention.content_bias->keys = ViewOf<const A, 2>(tensors.content_keys);
    if (tensors.content_values.defined()) attention.content_bias->values = ViewOf<const A, 2>(tensors.content_values);
    const at::Tensor& queries = tensors.content_queries;
    if (queries.defined() && queries.dim() == 3) attention.content_bias->head_queries = ViewOf<const A, 3>(queries);
    if (queries.defined() && queries.dim() == 2) attention.content_bias->queries = ViewOf<const A, 2>(queries);
  }
  if (tensors.transformer_xl_positions.defined()) {
    attention.transformer_xl.emplace().positions = ViewOf<const A, 3>(tensors.transformer_xl_positions);
    if (tensors.transformer_xl_bias.defined()) attention.transformer_xl->bias = ViewOf<const A, 2>(tensors.transformer_xl_bias);
  }
  if (tensors.contextual_position.defined())
    attention.contextual_position = ContextualPosition{ViewOf<const A, 2>(tensors.contextual_position)};
  if (options.score())
    attention.score = ProgramScore{
        *options.score(), ProgramTables<A>("score", options.score_extents(), tensors.score_reals, tensors.score_wholes)};
  if (options.mask_program())
    attention.mask_program = ProgramMask{
        *options.mask_program(), ProgramTables<A>("mask", options.mask_extents(), tensors.mask_reals, tensors.mask_wholes)};
  if (tensors.sinks.defined()) attention.sinks = Sinks{ViewOf<const A, 3>(tensors.sinks)};
  if (tensors.column_decay.defined()) attention.column_decay = ColumnDecay{ViewOf<const A, 1>(tensors.column_decay)};
  attention.softcap = options.softcap();
  attention.dropout.probability = options.dropout();
  attention.dropout.seed = static_cast<uint64_t>(options.seed().value_or(0));
  attention.dropout.batch_offset = options.batch_offset();
  attention.dropout.first_head = options.first_head();
  attention.dropout.first_query = options.first_query();
  attention.dropout.first_key = options.first_key();
  attention.empty_row = options.empty_row();
  attention.precision = options.precision();
  return attention;
}

template Attention EngineOptions<float>(const AttentionOptions&);
template Attention EngineOptions<double>(const AttentionOptions&);

}  // namespace heed::nn
