// Rotation and its tables, and torch.ops.heed.rotary and its kin.
#include "heed/nn/rotary.h"

#include <initializer_list>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/library.h>

#include "executor.h"
#include "heed/positions.h"
#include "operator_node.h"
#include "refuse.h"
#include "tensor_view.h"
#include "token_positions.h"
#include "translate_errors.h"

namespace heed::nn {
namespace {

using torch::autograd::variable_list;

// The rows of a table [max, R] that positions [B, N] name: [B, N, R].
at::Tensor Rows(const char* name, const at::Tensor& table, const at::Tensor& positions) {
  if (table.dim() != 2) Refuse(name, ": expected [max, rotary_dim/2] because positions are given, got ", table.sizes());
  return table.index_select(0, positions.reshape({-1})).view({positions.size(0), positions.size(1), table.size(1)});
}

void CheckRowNumbers(const at::Tensor& positions, const at::Tensor& x, int64_t rows) {
  if (positions.scalar_type() != at::kLong) Refuse("positions: expected int64, got ", positions.scalar_type());
  if (positions.dim() != 2 || (positions.size(0) != 1 && positions.size(0) != x.size(0)) || positions.size(1) != x.size(2)) {
    Refuse("positions: expected [B or 1, N] for x ", x.sizes(), ", got ", positions.sizes());
  }
  if (positions.numel() == 0) return;
  const auto [least, most] = at::aminmax(positions);
  if (least.item<int64_t>() < 0 || most.item<int64_t>() >= rows) {
    Refuse("positions: expected numbers in 0..", rows - 1, ", the rows of cos and sin, got ", least.item<int64_t>(), "..",
           most.item<int64_t>());
  }
}

// A table as the engine takes it, [B or 1, N, R] in the type that is computed in.
at::Tensor TableOf(const char* name, const at::Tensor& table, const at::Tensor& positions, at::ScalarType type) {
  if (!table.is_floating_point()) Refuse(name, ": expected a floating type, got ", table.scalar_type());
  const at::Tensor rows = positions.defined() ? Rows(name, table, positions) : table;
  if (rows.dim() != 2 && rows.dim() != 3) {
    Refuse(name, ": expected [N, rotary_dim/2] or [B, N, rotary_dim/2], got ", rows.sizes());
  }
  return (rows.dim() == 2 ? rows.unsqueeze(0) : rows).to(type);
}

template <class T>
void Apply(const Rotation& rotation, const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, const at::Tensor& out) {
  TorchExecutor executor;
  ApplyRotary(rotation, ViewOf<const T, 4>(x), ViewOf<const T, 3>(cos), ViewOf<const T, 3>(sin), ViewOf<T, 4>(out), executor);
}

void CheckNeedNoGradient(const at::Tensor& cos, const at::Tensor& sin) {
  for (const at::Tensor* table : {&cos, &sin}) {
    if (!table->defined() || !table->requires_grad()) continue;
    Refuse(table == &cos ? "cos" : "sin",
           ": expected a table that requires no gradient; rotation is differentiated with respect to x alone");
  }
}

// The derivative is the inverse rotation, and so are its derivatives.
variable_list Gradient(const variable_list& d_results, const variable_list& tables, const std::vector<bool>& /*wanted*/,
                       const std::vector<c10::IValue>& numbers) {
  static const c10::OperatorHandle rotary = c10::Dispatcher::singleton().findSchemaOrThrow("heed::rotary", "");
  return CallOperator(rotary, Joined(d_results, tables), {numbers[0], numbers[1], !numbers[2].toBool()});
}

template <class Rotate>
at::Tensor WithNode(const at::Tensor& x, at::ArrayRef<at::Tensor> tables, std::vector<c10::IValue> numbers,
                    const Rotate& rotate) {
  if (!WantsNode(x)) return rotate();
  const auto node = MakeNode<OperatorNode>("HeedRotaryBackward", &Gradient, x, std::move(numbers));
  node->Save(tables);
  at::Tensor rotated = rotate();
  torch::autograd::set_history(rotated, node);
  return rotated;
}

void RotaryWithDerivative(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const variable_list tensors = TensorsOnStack(op, *stack, 0, 4);
  const at::Tensor& x = tensors[0];
  const at::ArrayRef<at::Tensor> tables = at::ArrayRef<at::Tensor>(tensors).slice(1);
  CheckNeedNoGradient(tables[0], tables[1]);
  RefuseTangents("cos, sin", tables);
  const std::vector<c10::IValue> numbers(stack->end() - 3, stack->end());
  const at::Tensor rotated = WithNode(x, tables, numbers, [&] {
    CallBelowAutograd(op, keys, stack);
    return stack->back().toTensor();
  });
  if (!HasTangent(x)) return;
  torch::jit::Stack tangent{x._fw_grad(/*level=*/0), tables[0], tables[1], tables[2], numbers[0], numbers[1], numbers[2]};
  op.callBoxed(&tangent);
  rotated._set_fw_grad(tangent.back().toTensor(), /*level=*/0, /*is_inplace_op=*/false);
}

// What apply_rotary computes. The result has the strides of at::empty_like(x).
at::Tensor RotaryForward(const at::Tensor& any_x, const at::Tensor& any_cos, const at::Tensor& any_sin,
                         const at::Tensor& any_positions, const Rotation& rotation) {
  const at::Tensor x = Dense("x", any_x), cos = Dense("cos", any_cos), sin = Dense("sin", any_sin);
  const at::Tensor positions = any_positions.defined() ? Dense("positions", any_positions) : any_positions;
  if (x.dim() != 4) Refuse("x: expected 4 dimensions [batch, heads, steps, width], got shape ", x.sizes());
  const at::ScalarType type = x.scalar_type();
  const bool narrow = type == at::kBFloat16 || type == at::kHalf;
  if (!narrow && type != at::kFloat && type != at::kDouble) {
    Refuse("x: expected float32, float64, bfloat16 or float16, got ", type);
  }
  if (cos.sizes() != sin.sizes()) Refuse("sin: expected the shape of cos ", cos.sizes(), ", got ", sin.sizes());
  if (positions.defined()) CheckRowNumbers(positions, x, cos.dim() > 0 ? cos.size(0) : 0);
  const at::ScalarType compute_type = type == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor rows_cos = TableOf("cos", cos, positions, compute_type);
  const at::Tensor rows_sin = TableOf("sin", sin, positions, compute_type);

  at::Tensor out = at::empty_like(x);
  if (narrow) {
    const at::Tensor wide = x.to(at::kFloat);
    Apply<float>(rotation, wide, rows_cos, rows_sin, wide);
    out.copy_(wide);
  } else if (type == at::kFloat) {
    Apply<float>(rotation, x, rows_cos, rows_sin, out);
  } else {
    Apply<double>(rotation, x, rows_cos, rows_sin, out);
  }
  return out;
}

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
    if (rope_type == "longrope") return LongRopeScaling{short_factors, long_factors, original_length, factor, attention_factor};
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

RotaryTables rotary_tables(const RotaryFrequencies& frequencies, const at::Tensor& positions, at::ScalarType type) {
  const at::Tensor list = DensePositions("positions", positions).detach().reshape({-1});
  if (type != at::kFloat && type != at::kDouble) Refuse("type: expected float32 or float64, got ", type);
  const auto pairs = static_cast<int64_t>(frequencies.values.size());
  const RotaryTables tables{at::empty({list.size(0), pairs}, type), at::empty({list.size(0), pairs}, type)};
  const auto fill = [&](auto element, auto position) {
    using T = decltype(element);
    RotaryTable(frequencies, ViewOf<const decltype(position), 1>(list), ViewOf<T, 2>(tables.cos), ViewOf<T, 2>(tables.sin));
  };
  const bool whole = positions.scalar_type() == at::kLong;
  if (type == at::kFloat) {
    whole ? fill(float{}, int64_t{}) : fill(float{}, double{});
  } else {
    whole ? fill(double{}, int64_t{}) : fill(double{}, double{});
  }
  std::vector<int64_t> shape = positions.sizes().vec();
  shape.push_back(pairs);
  return {tables.cos.view(shape), tables.sin.view(shape)};
}

at::Tensor apply_rotary(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, const Rotation& rotation,
                        const at::Tensor& positions) {
  CheckNeedNoGradient(cos, sin);
  CheckDense("x", x);
  RefuseTangents("apply_rotary", {x, cos, sin});
  const char* layout = rotation.layout == RotaryLayout::kInterleaved ? "interleaved" : "half";
  return WithNode(x, {cos, sin, positions}, {layout, cos.dim() > 0 ? 2 * cos.size(-1) : 0, rotation.inverse}, [&] {
    const at::NoGradGuard no_grad;
    return RotaryForward(x, cos, sin, positions, rotation);
  });
}

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

TORCH_LIBRARY_IMPL(heed, Autograd, m) {
  m.impl("rotary", BoxedKernel<&RotaryWithDerivative>());
  // Tables have no derivative: asking for it raises.
  m.impl("rotary_table", torch::autograd::autogradNotImplementedFallback());
}

// These may be called without any tensor that tells a device; Python registers their shapes.
TORCH_LIBRARY_IMPL(heed, CompositeExplicitAutograd, m) {
  m.impl("rotary_frequencies", kKernel<&FrequenciesOperator>);
  m.impl("t5_buckets", kKernel<&T5BucketsOperator>);
}

}  // namespace heed::nn
