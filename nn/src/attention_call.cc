#include "attention_call.h"

#include <sys/mman.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>

#include "executor.h"
#include "heed/attention_check.h"
#include "heed/thread_workspace.h"
#include "program_tables.h"
#include "refuse.h"
#include "sizes.h"
#include "tensor_view.h"

namespace heed::nn {
namespace {

at::Tensor AllIndices(const at::Tensor& chosen, int64_t count) {
  return chosen.defined() ? chosen : at::arange(count, at::kLong);
}

// What at::empty and at::empty_like make of CPU tensors, past the dispatcher, which takes a tenth of the time of both passes
// over one query and one key (bench/python/call_overhead.py).
at::Tensor EmptyOf(at::IntArrayRef shape, at::ScalarType type) { return at::detail::empty_cpu(shape, type); }
at::Tensor EmptyLike(const at::Tensor& of, at::ScalarType type) {
  const bool dense = of.is_non_overlapping_and_dense();
  return at::detail::empty_strided_cpu(of.sizes(), dense ? of.strides() : at::infer_dense_strides(of.sizes(), of.strides()),
                                       type);
}

// Asks for pages of 2 MiB where an array has several: the gradient of a bias [n, n] is written once into memory that the system
// has just given, page by page. At n 2048 and two heads, 32 MiB, on a Zen 4, filling it took 12.1 ms by small pages and 3.2 by
// large ones, of 81 ms that the backward pass took (bench/python/hessian_bench.py has that row).
void AskForLargePages(const at::Tensor& array) {
#ifdef MADV_HUGEPAGE
  constexpr std::uintptr_t kPage = 4096, kLeast = std::uintptr_t{4} << 20;
  if (array.nbytes() < kLeast) return;
  WithElementType(array.scalar_type(), [&]<class T>(T) {
    auto* const first = reinterpret_cast<std::byte*>(AddressOf<T>(array));
    const std::uintptr_t to_page = (kPage - reinterpret_cast<std::uintptr_t>(first) % kPage) % kPage;
    // A system that declines gives small pages.
    static_cast<void>(madvise(first + to_page, array.nbytes() - to_page, MADV_HUGEPAGE));
  });
#else
  static_cast<void>(array);
#endif
}

}  // namespace

at::Tensor EmptyOutput(const at::Tensor& query, const at::Tensor& value, at::ScalarType type) {
  if (query.is_cpu() && query.stride(1) >= query.stride(2))
    return EmptyOf({query.size(0), query.size(1), query.size(2), value.size(3)}, type);
  const c10::SymInt batch = query.sym_size(0), heads = query.sym_size(1), steps = query.sym_size(2);
  const c10::SymInt width = value.sym_size(3);
  const at::TensorOptions options = query.options().dtype(type);
  if (query.sym_stride(1) < query.sym_stride(2)) {
    return at::empty_strided_symint({batch, heads, steps, width}, {steps * heads * width, width, heads * width, 1}, options);
  }
  return at::empty_symint({batch, heads, steps, width}, options);
}

ForwardResult AttentionForward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                               const AttentionOptions& options, Kept kept) {
  const bool exact = kept == Kept::kExact;
  const at::ScalarType rows = AccumulatorType(query.scalar_type());
  const std::array<int64_t, 3> row_shape{query.size(0), query.size(1), query.size(2)};
  ForwardResult result;
  result.output = EmptyOutput(query, value, query.scalar_type());
  if (kept != Kept::kNothing) result.lse = EmptyOf(row_shape, rows);
  if (exact) result.correction = EmptyOf(row_shape, rows);
  if (exact && IsNarrow(query.scalar_type())) result.remainder = EmptyOutput(query, value, at::kBFloat16);
  if (options.return_statistics()) result.statistics = EmptyOf({3, row_shape[0], row_shape[1], row_shape[2]}, rows);
  if (exact && options.return_statistics()) result.largest_key = EmptyOf(row_shape, at::kLong);
  TorchExecutor executor;
  WithElementType(query.scalar_type(), [&]<class T>(T) {
    Statistics<Accum<T>> statistics;
    if (options.return_statistics()) {
      statistics.entropy = ViewOf<Accum<T>, 3>(result.statistics[0]);
      statistics.max_weight = ViewOf<Accum<T>, 3>(result.statistics[1]);
      statistics.mean_distance = ViewOf<Accum<T>, 3>(result.statistics[2]);
    }
    Forward<T>(EngineOptions<Accum<T>>(options),
               {.q = ViewOf<const T, 4>(query), .k = ViewOf<const T, 4>(key), .v = ViewOf<const T, 4>(value)},
               {.out = ViewOf<T, 4>(result.output),
                .lse = ViewOf<Accum<T>, 3>(result.lse),
                .statistics = statistics,
                .remainder = ViewOf<BFloat16, 4>(result.remainder),
                .correction = ViewOf<Accum<T>, 3>(result.correction),
                .largest_key = ViewOf<int64_t, 3>(result.largest_key)},
               ThreadWorkspace(), executor);
  });
  return result;
}

ForwardResult ResultsOf(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, AttentionOptions options,
                        Kept kept) {
  options.tensors(Resolved(options.tensors(), query));
  return AttentionForward(query, key, value, options, kept);
}

void CheckCall(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const AttentionOptions& options) {
  const auto longest = [](const at::Tensor& offsets, int64_t otherwise) {
    return offsets.defined() ? (offsets.numel() > 1 ? offsets.diff().max().item<int64_t>() : 0) : otherwise;
  };
  const AttentionTensors& tensors = options.tensors();
  const at::Tensor& packed = tensors.packed_queries;
  const Shape shape{.batch = packed.defined() ? packed.numel() - 1 : query.size(0),
                    .q_heads = query.size(1),
                    .kv_heads = key.size(1),
                    .q_len = longest(packed, query.size(2)),
                    .kv_len = longest(tensors.packed_keys, key.size(2)),
                    .head_dim = query.size(3),
                    .value_dim = value.size(3)};
  WithElementType(query.scalar_type(), [&]<class T>(T) { CheckAttention(EngineOptions<Accum<T>>(options), shape); });
}

std::vector<at::Tensor> ListOf(Operands operands) {
  std::vector<at::Tensor> list;
  list.reserve(Operands::kCount);
  for (at::Tensor* operand : operands.All()) list.push_back(std::move(*operand));
  return list;
}

Operands OperandsIn(at::ArrayRef<at::Tensor> list) {
  Operands operands;
  for (std::size_t t = 0; t < Operands::kCount; ++t) *operands.All()[t] = list[t];
  return operands;
}

Operands EmptyGradients(Operands given, const Wanted& wanted, std::optional<at::ScalarType> table_type) {
  Operands gradients;
  const auto operands = given.All(), all = gradients.All();
  for (std::size_t t = 0; t < wanted.size(); ++t) {
    if (!wanted[t] || !operands[t]->defined()) continue;
    const bool table = t >= Operands::kOwnNames.size();
    const at::ScalarType own = operands[t]->scalar_type(), type = table ? table_type.value_or(own) : own;
    if (!operands[t]->is_cpu()) {
      *all[t] = at::empty_like(*operands[t], operands[t]->options().dtype(type),
                               table ? at::MemoryFormat::Contiguous : at::MemoryFormat::Preserve);
    } else {
      *all[t] = table ? EmptyOf(operands[t]->sizes(), type) : EmptyLike(*operands[t], type);
    }
  }
  return gradients;
}

namespace {

// What the engine writes gradients into. That of a table is summed up in the accumulator's type, whatever the table holds.
Operands GradientArrays(const SavedCall& saved, const AttentionOptions& options, const Wanted& wanted) {
  Operands arrays = EmptyGradients({saved.query, saved.key, saved.value, options.tensors()}, wanted,
                                   AccumulatorType(saved.query.scalar_type()));
  for (const at::Tensor* array : arrays.All())
    if (array->defined()) AskForLargePages(*array);
  return arrays;
}

template <class A>
StatisticGradients<A> StatisticsOf(const at::Tensor& d_statistics, const SavedCall& saved) {
  StatisticGradients<A> of;
  if (!d_statistics.defined()) return of;
  const auto view = [](const at::Tensor& statistics, int64_t s) { return ViewOf<const A, 3>(statistics[s]); };
  // Autograd fills in zeros for a statistic that no loss looks at; the logarithms of the entropy's cost time.
  const auto wanted = [&](int64_t s) { return d_statistics[s].any().item<bool>(); };
  if (wanted(0)) of.entropy = view(saved.statistics, 0), of.d_entropy = view(d_statistics, 0);
  if (wanted(1)) of.max_weight = view(saved.statistics, 1), of.d_max_weight = view(d_statistics, 1);
  if (wanted(2)) of.mean_distance = view(saved.statistics, 2), of.d_mean_distance = view(d_statistics, 2);
  of.largest_key = ViewOf<const int64_t, 3>(saved.largest_key);
  return of;
}

// Gradients come from outside of heed, past every check of its own.
ResultGradients DenseGradients(const ResultGradients& d, const SavedCall& saved) {
  const auto dense = [](const char* name, const at::Tensor& tensor) { return tensor.defined() ? Dense(name, tensor) : tensor; };
  return {d.output.defined() ? Dense("d_output", d.output) : at::zeros_like(saved.output), dense("d_lse", d.lse),
          dense("d_statistics", d.statistics)};
}

template <class T>
BackwardInputs<T> EngineInputs(const ResultGradients& d, const SavedCall& saved) {
  using A = Accum<T>;
  return {.q = ViewOf<const T, 4>(saved.query),
          .k = ViewOf<const T, 4>(saved.key),
          .v = ViewOf<const T, 4>(saved.value),
          .out = ViewOf<const T, 4>(saved.output),
          .lse = ViewOf<const A, 3>(saved.lse),
          .d_out = ViewOf<const T, 4>(d.output),
          .d_lse = ViewOf<const A, 3>(d.lse),
          .remainder = ViewOf<const BFloat16, 4>(saved.remainder),
          .correction = ViewOf<const A, 3>(saved.correction),
          .statistics = StatisticsOf<A>(d.statistics, saved)};
}

// Gradients or tangents of tables as the engine takes them.
template <class A>
BiasGradients<A> TableArrays(const AttentionOptions& options, const AttentionTensors& d) {
  BiasGradients<A> d_biases;
  d_biases.bias = ViewOf<A, 4>(d.bias);
  d_biases.relative_bias = ViewOf<A, 2>(d.relative_bias);
  d_biases.slopes = ViewOf<A, 1>(d.slopes);
  d_biases.content_keys = ViewOf<A, 2>(d.content_keys);
  d_biases.content_values = ViewOf<A, 2>(d.content_values);
  if (const at::Tensor& queries = d.content_queries; queries.defined() && queries.dim() == 3) {
    d_biases.content_head_queries = ViewOf<A, 3>(queries);
  } else {
    d_biases.content_queries = ViewOf<A, 2>(queries);
  }
  d_biases.transformer_xl_positions = ViewOf<A, 3>(d.transformer_xl_positions);
  d_biases.transformer_xl_bias = ViewOf<A, 2>(d.transformer_xl_bias);
  d_biases.contextual_position = ViewOf<A, 2>(d.contextual_position);
  d_biases.score_tables = ProgramGradients<A>(options.score_extents(), d.score_reals);
  d_biases.sinks = ViewOf<A, 3>(d.sinks);
  return d_biases;
}

// Gradients in the shapes and types of what they belong to.
Operands AsGiven(Operands d, Operands given) {
  for (std::size_t t = 0; t < Operands::kCount; ++t) {
    at::Tensor& gradient = *d.All()[t];
    if (!gradient.defined()) continue;
    // One row of a table may have served all heads, and a dense array may have had fewer dimensions.
    const at::Tensor& own = *given.All()[t];
    if (!gradient.sizes().equals(own.sizes()))
      gradient = own.dim() == gradient.dim() ? gradient.sum_to_size(own.sizes()) : gradient.reshape(own.sizes());
    if (gradient.scalar_type() != own.scalar_type()) gradient = gradient.to(own.scalar_type());
  }
  return d;
}

}  // namespace

Operands GradientsOf(const ResultGradients& d_results, const SavedCall& saved, AttentionOptions options, const Wanted& wanted) {
  Operands given{saved.query, saved.key, saved.value, options.tensors()};
  options.tensors(Resolved(given.tensors, saved.query));
  const ResultGradients dense = DenseGradients(d_results, saved);
  Operands d = GradientArrays(saved, options, wanted);
  TorchExecutor executor;
  WithElementType(saved.query.scalar_type(), [&]<class T>(T) {
    using A = Accum<T>;
    Backward<T>(EngineOptions<A>(options), EngineInputs<T>(dense, saved),
                {.q = ViewOf<T, 4>(d.query),
                 .k = ViewOf<T, 4>(d.key),
                 .v = ViewOf<T, 4>(d.value),
                 .biases = TableArrays<A>(options, d.tensors)},
                ThreadWorkspace(), executor);
  });
  return AsGiven(std::move(d), std::move(given));
}

namespace {

// The tangents of tables as the engine takes them; held: the tensors behind the views.
template <class A>
BiasGradients<A> TableTangents(const OperandTangents& tangents, const AttentionOptions& options, const at::Tensor& query,
                               AttentionTensors& held) {
  const auto tables = held.All();
  for (std::size_t t = Operands::kOwnNames.size(); t < kTangents; ++t)
    *tables[kTangentOperands[t] - Operands::kOwnNames.size()] = tangents[t];
  held = Resolved(held, query);
  if (held.bias.defined()) held.bias = held.bias.to(AccumulatorType(query.scalar_type()));
  return TableArrays<A>(options, held);
}

void CheckTangent(const char* name, const at::Tensor& tangent, const char* of, const at::Tensor& operand) {
  if (!tangent.defined()) return;
  if (!operand.defined()) Refuse(name, ": expected none, because the call has no ", of);
  if (tangent.sym_sizes() != operand.sym_sizes() || tangent.scalar_type() != operand.scalar_type())
    Refuse(name, ": expected the shape and type of ", of, ", ", ShapeText(operand), " ", operand.scalar_type(), ", got ",
           ShapeText(tangent), " ", tangent.scalar_type());
}

// All as the engine takes them.
template <class T>
Tangents<T> EngineTangents(const OperandTangents& tangents, const AttentionOptions& options, const at::Tensor& query,
                           AttentionTensors& held) {
  return {.q = ViewOf<const T, 4>(tangents[0]),
          .k = ViewOf<const T, 4>(tangents[1]),
          .v = ViewOf<const T, 4>(tangents[2]),
          .biases = TableTangents<Accum<T>>(tangents, options, query, held)};
}

}  // namespace

void CheckTangents(Operands operands, const OperandTangents& tangents) {
  for (std::size_t t = 0; t < kTangents; ++t) {
    const auto* const name = Operands::Name(kTangentOperands[t]);
    CheckTangent(c10::str("t_", name).c_str(), tangents[t], name, *operands.All()[kTangentOperands[t]]);
  }
}

TangentResult EmptyTangents(const at::Tensor& query, const at::Tensor& value) {
  const auto output = [&] { return EmptyOutput(query, value, query.scalar_type()); };
  const auto rows = [&] {
    return at::empty_symint({query.sym_size(0), query.sym_size(1), query.sym_size(2)},
                            query.options().dtype(AccumulatorType(query.scalar_type())));
  };
  return {output(), rows(), output(), rows()};
}

TangentResult AttentionTangent(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                               AttentionOptions options, const OperandTangents& tangents) {
  options.tensors() = Resolved(options.tensors(), query);
  const TangentResult result = EmptyTangents(query, value);
  TorchExecutor executor;
  AttentionTensors held;
  WithElementType(query.scalar_type(), [&]<class T>(T) {
    using A = Accum<T>;
    Tangent<T>(EngineOptions<A>(options), ViewOf<const T, 4>(query), ViewOf<const T, 4>(key), ViewOf<const T, 4>(value),
               EngineTangents<T>(tangents, options, query, held), ViewOf<T, 4>(result.output), ViewOf<T, 4>(result.t_output),
               ViewOf<A, 3>(result.lse), ViewOf<A, 3>(result.t_lse), ThreadWorkspace(), executor);
  });
  return result;
}

Operands AttentionBackwardTangent(const ResultGradients& d_results, const SavedCall& saved, AttentionOptions options,
                                  const OperandTangents& tangents, const RowTangentTensors& rows, const Wanted& wanted) {
  Operands given{saved.query, saved.key, saved.value, options.tensors()};
  CheckTangents(given, tangents);
  CheckTangent("t_output", rows.output, "output", saved.output);
  CheckTangent("t_lse", rows.lse, "lse", saved.lse);
  CheckTangent("t_d_output", rows.d_output, "output", saved.output);
  CheckTangent("t_d_lse", rows.d_lse, "lse", saved.lse);
  options.tensors(Resolved(given.tensors, saved.query));
  const ResultGradients dense = DenseGradients(d_results, saved);
  Operands d = GradientArrays(saved, options, wanted);
  TorchExecutor executor;
  AttentionTensors held;
  WithElementType(saved.query.scalar_type(), [&]<class T>(T) {
    using A = Accum<T>;
    const RowTangents<T> of_rows{.out = ViewOf<const T, 4>(rows.output),
                                 .lse = ViewOf<const A, 3>(rows.lse),
                                 .d_out = ViewOf<const T, 4>(rows.d_output),
                                 .d_lse = ViewOf<const A, 3>(rows.d_lse)};
    BackwardTangent<T>(EngineOptions<A>(options), EngineInputs<T>(dense, saved),
                       EngineTangents<T>(tangents, options, saved.query, held), of_rows, ViewOf<T, 4>(d.query),
                       ViewOf<T, 4>(d.key), ViewOf<T, 4>(d.value), TableArrays<A>(options, d.tensors), ThreadWorkspace(),
                       executor);
  });
  return AsGiven(std::move(d), std::move(given));
}

at::Tensor AttentionWeights(const at::Tensor& query, const at::Tensor& key, const at::Tensor& lse,
                            const AttentionOptions& options, const at::Tensor& heads, const at::Tensor& rows) {
  const at::Tensor all_heads = AllIndices(heads, query.size(1)), all_rows = AllIndices(rows, query.size(2));
  at::Tensor weights = at::empty({query.size(0), all_heads.size(0), all_rows.size(0), key.size(2)},
                                 query.options().dtype(AccumulatorType(query.scalar_type())));
  AskForLargePages(weights);
  TorchExecutor executor;
  WithElementType(query.scalar_type(), [&]<class T>(T) {
    using A = Accum<T>;
    Weights<T>(EngineOptions<A>(options), ViewOf<const T, 4>(query), ViewOf<const T, 4>(key), ViewOf<const A, 3>(lse),
               ViewOf<const int64_t, 1>(all_heads), ViewOf<const int64_t, 1>(all_rows), ViewOf<A, 4>(weights),
               ThreadWorkspace(), executor);
  });
  return weights;
}

void release_workspace() { ThreadWorkspace().Release(); }

int64_t DrawSeed() { return at::randint(std::numeric_limits<int64_t>::max(), {}, at::kLong).item<int64_t>(); }

}  // namespace heed::nn
