// torch.ops.heed.*: tables, information, and what modules of both languages do to lengths, positions and times. Attention's
// operators are in attention_operators.cc.
#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>
#include <variant>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

#include "attention_call.h"
#include "heed/attention.h"
#include "heed/error.h"
#include "heed/nn/attention.h"
#include "heed/positions.h"
#include "heed/series_form.h"
#include "refuse.h"
#include "residual_layers.h"
#include "tensor_view.h"
#include "token_positions.h"
#include "translate_errors.h"
#include "version.h"

namespace heed::nn {
namespace {

at::Tensor SinusoidalTableOperator(int64_t steps, int64_t width, int64_t first_position, c10::string_view layout, double base,
                                   c10::string_view angles, c10::string_view spacing) {
  if (steps < 0) Refuse("steps: expected at least 0, got ", steps);
  if (width < 0) Refuse("width: expected at least 0, got ", width);
  SinusoidalOptions options;
  options.base = base;
  if (IsSecond("layout", layout, "interleaved", "halves")) options.layout = SinusoidalLayout::kHalves;
  if (IsSecond("angles", angles, "f64", "f32")) options.angles = Angles::kFloat32;
  if (IsSecond("spacing", spacing, "geometric", "inclusive")) options.spacing = SinusoidalSpacing::kInclusive;
  at::Tensor table = at::empty({steps, width}, at::kFloat);
  if (table.numel() > 0) SinusoidalTable(options, first_position, ViewOf<float, 2>(table));
  return table;
}

using OptionalTensor = std::optional<at::Tensor>;

// NOLINTBEGIN(performance-unnecessary-value-param): the dispatcher hands numbers over by value
at::Tensor ClampValidLensOperator(const at::Tensor& valid_lens, c10::SymInt batch, c10::SymInt queries, c10::SymInt steps) {
  return ClampValidLens(valid_lens, batch, queries, steps);
}

std::vector<double> ContinueTimesOperator(std::vector<double> times, double typical_step, bool has_dates, int64_t context,
                                          int64_t horizon) {
  constexpr int64_t kMostSteps = int64_t{1} << 20;  // of a kept model
  const auto finite = [](double time) { return std::isfinite(time); };
  if (times.empty() || !std::ranges::all_of(times, finite) || !std::isfinite(typical_step) || typical_step <= 0)
    Refuse("continue_times: expected finite times, one at least, and a typical step above 0");
  if (context < 1 || context > kMostSteps || horizon < 0 || horizon > kMostSteps)
    Refuse("continue_times: expected a context from 1 and a horizon from 0 to ", kMostSteps, ", got ", context, " and ",
           horizon);
  SeriesForm form;
  form.typical_step = typical_step, form.has_dates = has_dates, form.context = context;
  std::vector<double> next(static_cast<std::size_t>(horizon));
  ContinueTimes(form, times, next);
  return next;
}

std::tuple<at::Tensor, at::Tensor> PackedPositionsShape(const at::Tensor& packed_queries, const at::Tensor& packed_keys,
                                                        const OptionalTensor& query_positions,
                                                        const OptionalTensor& key_positions, c10::SymInt queries,
                                                        c10::SymInt keys, bool /*bottom_right*/,
                                                        std::optional<c10::SymInt> /*query_offset*/,
                                                        std::optional<c10::SymInt> /*key_offset*/) {
  CheckDense("packed_queries", packed_queries, at::kMeta);
  CheckDense("packed_keys", packed_keys, at::kMeta);
  const auto places = [&](const char* name, const c10::SymInt& tokens, const OptionalTensor& list) {
    if (list) CheckDense(name, *list, at::kMeta);
    return at::empty_symint({tokens}, packed_queries.options().dtype(list ? list->scalar_type() : at::kLong));
  };
  return std::make_tuple(places("query_positions", queries, query_positions), places("key_positions", keys, key_positions));
}
// NOLINTEND(performance-unnecessary-value-param)

std::tuple<at::Tensor, at::Tensor> PackedPositionsOperator(const at::Tensor& packed_queries, const at::Tensor& packed_keys,
                                                           const OptionalTensor& query_positions,
                                                           const OptionalTensor& key_positions, int64_t queries, int64_t keys,
                                                           bool bottom_right, std::optional<int64_t> query_offset,
                                                           std::optional<int64_t> key_offset) {
  AttentionOptions options;
  options.packed(packed_queries, packed_keys).causal(bottom_right);
  options.query_positions(query_positions.value_or(at::Tensor())).key_positions(key_positions.value_or(at::Tensor()));
  options.query_offset(query_offset).key_offset(key_offset);
  options.tensors() = ResolvedPlaces(options.tensors());
  const CallPositions places = PositionsOf(options, queries, keys);
  return std::make_tuple(std::get<at::Tensor>(places.queries), std::get<at::Tensor>(places.keys));
}

}  // namespace

std::string Version() { return HEED_VERSION; }

TORCH_LIBRARY(heed, m) {
  m.def(
      "sinusoidal_table(int steps, int width, int first_position=0, str layout='interleaved', float base=10000.0, "
      "str angles='f64', str spacing='geometric') -> Tensor",
      kKernel<&SinusoidalTableOperator>);
  m.def("alibi_slopes(int heads) -> float[]", kKernel<&AlibiSlopes>);
  m.def("supported_targets() -> str[]", &SupportedTargets);
  m.def("version() -> str", &Version);
  m.def("release_workspace() -> ()", &release_workspace);
  m.def("clamp_valid_lens(Tensor valid_lens, SymInt batch, SymInt queries, SymInt steps) -> Tensor");
  // The times of the next steps, see heed/series_form.h.
  m.def("continue_times(float[] times, float typical_step, bool has_dates, int context, int horizon) -> float[]",
        kKernel<&ContinueTimesOperator>);
  // Where the tokens [queries] and [keys] of packed sequences stand.
  m.def(
      "packed_positions(Tensor packed_queries, Tensor packed_keys, Tensor? query_positions=None, Tensor? key_positions=None, "
      "*, "
      "SymInt queries, SymInt keys, bool bottom_right=False, SymInt? query_offset=None, SymInt? key_offset=None) -> (Tensor "
      "queries, Tensor keys)");
}

// Made of PyTorch's operators, which a trace sees.
TORCH_LIBRARY_IMPL(heed, CompositeImplicitAutograd, m) { m.impl("clamp_valid_lens", kKernel<&ClampValidLensOperator>); }

TORCH_LIBRARY_IMPL(heed, CPU, m) { m.impl("packed_positions", kKernel<&PackedPositionsOperator>); }

TORCH_LIBRARY_IMPL(heed, Meta, m) { m.impl("packed_positions", kKernel<&PackedPositionsShape>); }

// Positions have no derivative: asking for it raises.
TORCH_LIBRARY_IMPL(heed, Autograd, m) { m.impl("packed_positions", torch::autograd::autogradNotImplementedFallback()); }

}  // namespace heed::nn
