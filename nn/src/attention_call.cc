#include "attention_call.h"

#include <limits>
#include <sstream>

#include <ATen/ATen.h>

#include "executor.h"
#include "heed/error.h"
#include "heed/workspace.h"

namespace heed::nn {
namespace {

// Engine calls of one thread follow one another, so they can share their scratch memory.
Workspace& ThreadWorkspace() {
  static thread_local Workspace workspace;
  return workspace;
}

// An empty tensor has no address, and a view without address means "absent".
template <class T>
T* AddressOf(const at::Tensor& tensor) {
  static std::remove_const_t<T> nowhere{};
  if (tensor.numel() == 0) return &nowhere;
  if constexpr (std::is_const_v<T>) {
    return tensor.const_data_ptr<std::remove_const_t<T>>();
  } else {
    return tensor.mutable_data_ptr<T>();
  }
}

template <class T, int Rank>
View<T, Rank> ViewOf(const at::Tensor& tensor) {
  View<T, Rank> view;
  if (!tensor.defined()) return view;
  view.data = AddressOf<T>(tensor);
  for (int r = 0; r < Rank; ++r) {
    view.extent[r] = tensor.size(r);
    view.stride[r] = tensor.stride(r);
  }
  return view;
}

void CheckDense(const char* name, const at::Tensor& tensor) {
  std::ostringstream text;
  if (!tensor.defined()) {
    text << name << ": expected a tensor, got an undefined one";
  } else if (!tensor.device().is_cpu()) {
    text << name << ": expected a CPU tensor, got one on " << tensor.device();
  } else if (tensor.layout() != at::kStrided) {
    text << name << ": expected a strided tensor, got layout " << tensor.layout();
  } else {
    return;
  }
  throw InvalidArgument(text.str());
}

void CheckOperand(const char* name, const at::Tensor& tensor, at::ScalarType type) {
  CheckDense(name, tensor);
  if (tensor.dim() != 4) {
    throw InvalidArgument(std::string(name) + ": expected 4 dimensions [batch, heads, steps, width], got shape " +
                          ShapeText(tensor));
  }
  if (tensor.scalar_type() != at::kFloat && tensor.scalar_type() != at::kDouble) {
    throw InvalidArgument(std::string(name) + ": expected float32 or float64, got " + at::toString(tensor.scalar_type()));
  }
  if (tensor.scalar_type() != type) {
    throw InvalidArgument(std::string(name) + ": expected " + at::toString(type) + " as query has, got " +
                          at::toString(tensor.scalar_type()));
  }
}

void CheckRowNumbers(const char* name, const at::Tensor& tensor, at::ScalarType type) {
  CheckDense(name, tensor);
  if (tensor.dim() != 3 || tensor.scalar_type() != type) {
    throw InvalidArgument(std::string(name) + ": expected shape [batch, heads, steps] in the type of query, got " +
                          ShapeText(tensor) + " " + at::toString(tensor.scalar_type()));
  }
}

Lengths LengthsOf(const char* name, const at::Tensor& lengths, bool per_query) {
  Lengths result;
  if (!lengths.defined()) return result;
  CheckDense(name, lengths);
  if (lengths.scalar_type() != at::kLong) {
    throw InvalidArgument(std::string(name) + ": expected int64, got " + at::toString(lengths.scalar_type()));
  }
  if (lengths.dim() != 1 && !(per_query && lengths.dim() == 2)) {
    throw InvalidArgument(
        std::string(name) +
        (per_query ? ": expected shape [batch] or [batch, queries], got " : ": expected shape [batch], got ") +
        ShapeText(lengths));
  }
  result.values = ViewOf<const int64_t, 2>(lengths.dim() == 1 ? lengths.unsqueeze(1) : lengths);
  return result;
}

template <class T>
Attention EngineOptions(const AttentionOptions& options) {
  Attention attention;
  attention.scale = options.scale();
  attention.causal = options.causal();
  attention.query_lengths = LengthsOf("query_lengths", options.query_lengths(), false);
  attention.key_lengths = LengthsOf("key_lengths", options.key_lengths(), true);
  attention.query_positions.offset = options.query_offset();
  attention.key_positions.offset = options.key_offset();
  if (options.relative_bias().defined()) {
    attention.relative_bias = RelativeBias{ViewOf<const T, 2>(options.relative_bias())};
  }
  attention.dropout.probability = options.dropout();
  attention.dropout.seed = static_cast<uint64_t>(options.seed().value_or(0));
  attention.dropout.batch_offset = options.batch_offset();
  attention.empty_row = options.empty_row();
  return attention;
}

}  // namespace

std::string ShapeText(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.sizes();
  return text.str();
}

void CheckAttentionInputs(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
  CheckDense("query", query);
  CheckOperand("query", query, query.scalar_type());
  CheckOperand("key", key, query.scalar_type());
  CheckOperand("value", value, query.scalar_type());
}

void CheckSavedTensors(const at::Tensor& d_output, const at::Tensor& d_lse, const at::Tensor& query, const at::Tensor& output,
                       const at::Tensor& lse) {
  const at::ScalarType type = query.scalar_type();
  if (d_output.defined()) CheckOperand("d_output", d_output, type);
  CheckOperand("output", output, type);
  if (d_lse.defined()) CheckRowNumbers("d_lse", d_lse, type);
  CheckRowNumbers("lse", lse, type);
}

at::Tensor ExpandRelativeBias(const at::Tensor& relative_bias, const at::Tensor& query) {
  if (!relative_bias.defined()) return relative_bias;
  CheckDense("relative_bias", relative_bias);
  const int64_t heads = query.size(1);
  if (relative_bias.dim() != 2 || (relative_bias.size(0) != 1 && relative_bias.size(0) != heads)) {
    throw InvalidArgument("relative_bias: expected shape [" + std::to_string(heads) + " or 1, 2 * max_distance + 1], got " +
                          ShapeText(relative_bias) + " with query " + ShapeText(query));
  }
  if (!relative_bias.is_floating_point()) {
    throw InvalidArgument(std::string("relative_bias: expected a floating-point tensor, got ") +
                          at::toString(relative_bias.scalar_type()));
  }
  return relative_bias.to(query.scalar_type()).expand({heads, -1});
}

at::Tensor EmptyOutput(const at::Tensor& query, const at::Tensor& value) {
  const c10::SymInt batch = query.sym_size(0), heads = query.sym_size(1), steps = query.sym_size(2);
  const c10::SymInt width = value.sym_size(3);
  if (query.sym_stride(1) < query.sym_stride(2)) {
    return at::empty_symint({batch, steps, heads, width}, query.options()).transpose(1, 2);
  }
  return at::empty_symint({batch, heads, steps, width}, query.options());
}

ForwardResult AttentionForward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                               const AttentionOptions& options) {
  ForwardResult result;
  result.output = EmptyOutput(query, value);
  result.lse = at::empty({query.size(0), query.size(1), query.size(2)}, query.options());
  TorchExecutor executor;
  const auto run = [&]<class T>(T) {
    Forward(EngineOptions<T>(options), ViewOf<const T, 4>(query), ViewOf<const T, 4>(key), ViewOf<const T, 4>(value),
            ViewOf<T, 4>(result.output), ViewOf<T, 3>(result.lse), ThreadWorkspace(), executor);
  };
  query.scalar_type() == at::kDouble ? run(double{}) : run(float{});
  return result;
}

Gradients AttentionBackward(const at::Tensor& d_output, const at::Tensor& d_lse, const at::Tensor& query, const at::Tensor& key,
                            const at::Tensor& value, const at::Tensor& output, const at::Tensor& lse,
                            const AttentionOptions& options, bool want_relative_bias) {
  const at::Tensor d_out = d_output.defined() ? d_output : at::zeros_like(output);
  if (d_lse.defined()) {
    // Scores receive p (dP - sum(d_out * out) + d_lse). One more value column, 0 everywhere, with output -d_lse and gradient 1,
    // changes that sum by -d_lse and nothing else.
    const at::Tensor column = d_lse.unsqueeze(-1);
    const at::Tensor wide_value = at::constant_pad_nd(value, {0, 1});
    Gradients result = AttentionBackward(at::cat({d_out, at::ones_like(column)}, -1), {}, query, key, wide_value,
                                         at::cat({output, column.neg()}, -1), lse, options, want_relative_bias);
    result.value = at::empty_like(value).copy_(result.value.narrow(-1, 0, value.size(-1)));
    return result;
  }
  Gradients result{at::empty_like(query), at::empty_like(key), at::empty_like(value), {}};
  if (want_relative_bias) result.relative_bias = at::empty(options.relative_bias().sizes(), query.options());
  TorchExecutor executor;
  const auto run = [&]<class T>(T) {
    Backward(EngineOptions<T>(options), ViewOf<const T, 4>(query), ViewOf<const T, 4>(key), ViewOf<const T, 4>(value),
             ViewOf<const T, 4>(output), ViewOf<const T, 3>(lse), ViewOf<const T, 4>(d_out), ViewOf<T, 4>(result.query),
             ViewOf<T, 4>(result.key), ViewOf<T, 4>(result.value), ViewOf<T, 2>(result.relative_bias), ThreadWorkspace(),
             executor);
  };
  query.scalar_type() == at::kDouble ? run(double{}) : run(float{});
  return result;
}

int64_t DrawSeed() { return at::randint(std::numeric_limits<int64_t>::max(), {}, at::kLong).item<int64_t>(); }

}  // namespace heed::nn
