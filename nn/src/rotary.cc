#include "heed/nn/rotary.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/library.h>

#include "executor.h"
#include "operator_node.h"
#include "refuse.h"
#include "rotary_call.h"
#include "tensor_view.h"
#include "translate_errors.h"

namespace heed::nn {
namespace {

using torch::autograd::variable_list;

at::Tensor DensePositions(const at::Tensor& positions) {
  CheckDense("positions", positions);
  if (positions.scalar_type() != at::kLong && positions.scalar_type() != at::kDouble) {
    Refuse("positions: expected int64 or float64, got ", positions.scalar_type());
  }
  return Dense("positions", positions.detach());
}

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

}  // namespace

int64_t LengthOf(const at::Tensor& any) {
  const at::Tensor positions = DensePositions(any);
  if (positions.numel() == 0) return 0;
  const auto largest = positions.max().item<double>();
  // From 2^53 on a double no longer counts.
  if (!(std::abs(largest) < 9007199254740992.0)) Refuse("positions: expected numbers below 2^53, got ", largest);
  return std::max<int64_t>(0, static_cast<int64_t>(std::floor(largest)) + 1);
}

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

RotaryTables rotary_tables(const RotaryFrequencies& frequencies, const at::Tensor& positions, at::ScalarType type) {
  const at::Tensor list = DensePositions(positions).reshape({-1});
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

TORCH_LIBRARY_IMPL(heed, Autograd, m) { m.impl("rotary", BoxedKernel<&RotaryWithDerivative>()); }

}  // namespace heed::nn
