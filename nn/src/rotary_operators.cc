// torch.ops.heed.rotary and its kin: tables, rotation, buckets. Rotation's derivative is in rotary.cc.
#include <cmath>
#include <initializer_list>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

#include "heed/nn/rotary.h"
#include "heed/positions.h"
#include "refuse.h"
#include "rotary_call.h"
#include "tensor_view.h"
#include "translate_errors.h"

namespace heed::nn {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

RotaryLayout ParseLayout(std::string_view name) {
  return IsSecond("layout", name, "half", "interleaved") ? RotaryLayout::kInterleaved : RotaryLayout::kHalf;
}

Angles ParseAngles(std::string_view name) {
  return IsSecond("angles", name, "f64", "f32_hf") ? Angles::kFloat32 : Angles::kFloat64;
}

at::Tensor RotaryOperator(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, const OptionalTensor& positions,
                          c10::string_view layout, int64_t rotary_dim, bool inverse) {
  if (cos.dim() == 0 || rotary_dim != 2 * cos.size(-1)) {
    Refuse("rotary_dim: expected twice the columns of cos, ", cos.dim() == 0 ? 0 : 2 * cos.size(-1), ", got ", rotary_dim);
  }
  return RotaryForward(x, cos, sin, positions.value_or(at::Tensor()), {ParseLayout(layout), inverse});
}

// The dispatcher picks a kernel by the foremost device among the tensors.
void CheckAllMeta(std::initializer_list<std::pair<const char*, at::Tensor>> tensors) {
  for (const auto& [name, tensor] : tensors)
    if (tensor.defined()) CheckDense(name, tensor, at::kMeta);
}

// NOLINTBEGIN(performance-unnecessary-value-param): the dispatcher hands numbers over by value
at::Tensor RotaryShape(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, const OptionalTensor& positions,
                       c10::string_view layout, c10::SymInt rotary_dim, bool inverse) {
  CheckAllMeta({{"x", x}, {"cos", cos}, {"sin", sin}, {"positions", positions.value_or(at::Tensor())}});
  if (x.dim() != 4) Refuse("x: expected 4 dimensions [batch, heads, steps, width], got shape ", x.sym_sizes());
  return at::empty_like(x);
}

std::tuple<at::Tensor, at::Tensor> TableShape(const at::Tensor& positions, const at::Tensor& frequencies,
                                              const at::Tensor& attention_factor, c10::string_view angles,
                                              at::ScalarType dtype) {
  CheckAllMeta({{"positions", positions}, {"frequencies", frequencies}, {"attention_factor", attention_factor}});
  c10::SymDimVector shape(positions.sym_sizes());
  shape.push_back(frequencies.sym_size(0));
  const auto options = positions.options().dtype(dtype);
  return {at::empty_symint(shape, options), at::empty_symint(shape, options)};
}
// NOLINTEND(performance-unnecessary-value-param)

std::tuple<at::Tensor, at::Tensor> TableOperator(const at::Tensor& positions, const at::Tensor& frequencies,
                                                 const at::Tensor& attention_factor, c10::string_view angles,
                                                 at::ScalarType dtype) {
  if (frequencies.dim() != 1 || frequencies.scalar_type() != at::kDouble) {
    Refuse("frequencies: expected float64 [rotary_dim/2], got ", frequencies.scalar_type(), " of ", frequencies.dim(),
           " dimensions");
  }
  if (attention_factor.numel() != 1 || attention_factor.scalar_type() != at::kDouble) {
    Refuse("attention_factor: expected one float64 number, got ", attention_factor.scalar_type(), " ",
           ShapeText(attention_factor));
  }
  RotaryFrequencies numbers;
  const at::Tensor list = Dense("frequencies", frequencies).contiguous();
  const std::span<const double> values = ElementsOf<const double>(list);
  numbers.values.assign(values.begin(), values.end());
  numbers.attention_factor = Dense("attention_factor", attention_factor).item<double>();
  numbers.angles = ParseAngles(angles);
  const RotaryTables tables = rotary_tables(numbers, positions, dtype);
  return std::make_tuple(tables.cos, tables.sin);
}

// NOLINTBEGIN(performance-unnecessary-value-param, readability-function-size): one parameter for each of the schema
std::tuple<at::Tensor, at::Tensor> FrequenciesOperator(int64_t rotary_dim, double base, const OptionalTensor& positions,
                                                       c10::string_view rope_type, double factor, int64_t original_length,
                                                       std::vector<double> short_factors, std::vector<double> long_factors,
                                                       double beta_fast, double beta_slow, bool truncate,
                                                       double low_frequency_factor, double high_frequency_factor,
                                                       std::optional<double> attention_factor, std::optional<double> mscale,
                                                       std::optional<double> mscale_all_dim, c10::string_view angles) {
  const auto scaling = [&]() -> RotaryScaling {
    if (rope_type == "default") return std::monostate{};
    if (rope_type == "linear") return LinearScaling{factor};
    if (rope_type == "ntk") return NtkScaling{factor};
    if (rope_type == "dynamic") return DynamicScaling{factor, original_length};
    if (rope_type == "yarn")
      return YarnScaling{factor, original_length, beta_fast, beta_slow, truncate, attention_factor, mscale, mscale_all_dim};
    if (rope_type == "longrope")
      return LongRopeScaling{short_factors, long_factors, original_length, factor, attention_factor};
    if (rope_type == "llama3") return Llama3Scaling{factor, low_frequency_factor, high_frequency_factor, original_length};
    Refuse("rope_type: expected default, linear, ntk, dynamic, yarn, longrope or llama3, got '", rope_type, "'");
  };
  RotaryOptions options;
  options.rotary_dim = rotary_dim;
  options.base = base;
  options.scaling = scaling();
  options.angles = ParseAngles(angles);
  const RotaryFrequencies result = ComputeRotaryFrequencies(options, positions ? LengthOf(*positions) : 0);
  return std::make_tuple(at::tensor(result.values, at::kDouble), at::scalar_tensor(result.attention_factor, at::kDouble));
}
// NOLINTEND(performance-unnecessary-value-param, readability-function-size)

at::Tensor T5BucketsOperator(int64_t reach, int64_t buckets, int64_t max_distance, bool bidirectional) {
  constexpr int64_t kFarthest = int64_t{1} << 30;
  if (reach < 0 || reach > kFarthest) Refuse("reach: expected 0 to 2^30, got ", reach);
  at::Tensor result = at::empty({2 * reach + 1}, at::kLong);
  T5Buckets({buckets, max_distance, bidirectional}, reach, ViewOf<int64_t, 1>(result));
  return result;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(heed, m) {
  // Tensors are positional: PyTorch attaches derivatives to positional arguments alone.
  m.def(
      "rotary(Tensor x, Tensor cos, Tensor sin, Tensor? positions=None, *, str layout, SymInt rotary_dim, bool inverse=False) "
      "-> Tensor");
  m.def(
      "rotary_table(Tensor positions, Tensor frequencies, Tensor attention_factor, *, str angles='f64', "
      "ScalarType dtype=float) -> (Tensor cos, Tensor sin)");
  // positions: those whose largest tells the length of the text. Frequencies in radians per step, float64 [rotary_dim/2].
  m.def(
      "rotary_frequencies(int rotary_dim, float base=10000.0, Tensor? positions=None, *, str rope_type='default', "
      "float factor=1.0, int original_length=0, float[] short_factors=[], float[] long_factors=[], float beta_fast=32.0, "
      "float beta_slow=1.0, bool truncate=True, float low_frequency_factor=1.0, float high_frequency_factor=4.0, "
      "float? attention_factor=None, float? mscale=None, float? mscale_all_dim=None, str angles='f64') "
      "-> (Tensor frequencies, Tensor attention_factor)");
  m.def("t5_buckets(SymInt reach, int buckets=32, int max_distance=128, bool bidirectional=True) -> Tensor");
}

TORCH_LIBRARY_IMPL(heed, CPU, m) {
  m.impl("rotary", kKernel<&RotaryOperator>);
  m.impl("rotary_table", kKernel<&TableOperator>);
}

TORCH_LIBRARY_IMPL(heed, Meta, m) {
  m.impl("rotary", kKernel<&RotaryShape>);
  m.impl("rotary_table", kKernel<&TableShape>);
}

// Tables have no derivative: asking for it raises.
TORCH_LIBRARY_IMPL(heed, Autograd, m) { m.impl("rotary_table", torch::autograd::autogradNotImplementedFallback()); }

// These may be called without any tensor that tells a device; Python registers their shapes.
TORCH_LIBRARY_IMPL(heed, CompositeExplicitAutograd, m) {
  m.impl("rotary_frequencies", kKernel<&FrequenciesOperator>);
  m.impl("t5_buckets", kKernel<&T5BucketsOperator>);
}

}  // namespace heed::nn
