// torch.ops.heed.*: what other languages call. The operators compute; derivatives are attached by the caller's front end
// (heed::nn::attention in C++, heed.attention in Python), because only there can everything that is not defined raise.
#include <ATen/ATen.h>
#include <torch/library.h>

#include "attention_call.h"
#include "heed/error.h"
#include "heed/positions.h"
#include "translate_errors.h"

namespace heed::nn {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

// Tensors are positional: PyTorch attaches derivatives to positional arguments alone.
#define HEED_OPTION_TENSORS "Tensor? relative_bias=None, Tensor? query_lengths=None, Tensor? key_lengths=None, "
#define HEED_OPTION_NUMBERS \
  "float? scale=None, str causal='none', SymInt? query_offset=None, SymInt? key_offset=None, str empty_row='zero'"
#define HEED_OPTION_DROPOUT ", float dropout=0.0, SymInt batch_offset=0"

Causal ParseCausal(std::string_view name) {
  if (name == "none") return Causal::kNone;
  if (name == "bottom_right") return Causal::kBottomRight;
  if (name == "top_left") return Causal::kTopLeft;
  throw InvalidArgument("causal: expected 'none', 'bottom_right' or 'top_left', got '" + std::string(name) + "'");
}

EmptyRow ParseEmptyRow(std::string_view name) {
  if (name == "zero") return EmptyRow::kZero;
  if (name == "uniform") return EmptyRow::kUniform;
  throw InvalidArgument("empty_row: expected 'zero' or 'uniform', got '" + std::string(name) + "'");
}

struct OptionArguments {
  const OptionalTensor &relative_bias, &query_lengths, &key_lengths, &seed;
  std::optional<double> scale;
  c10::string_view causal;
  std::optional<int64_t> query_offset, key_offset;
  c10::string_view empty_row;
  double dropout;
  int64_t batch_offset;

  AttentionOptions Resolve(const at::Tensor& query) const {
    AttentionOptions options;
    if (scale) options.scale(*scale);
    options.causal(ParseCausal(causal)).empty_row(ParseEmptyRow(empty_row));
    options.query_lengths(query_lengths.value_or(at::Tensor())).key_lengths(key_lengths.value_or(at::Tensor()));
    if (query_offset) options.query_offset(*query_offset);
    if (key_offset) options.key_offset(*key_offset);
    options.relative_bias(ExpandRelativeBias(relative_bias.value_or(at::Tensor()), query));
    options.dropout(dropout).batch_offset(batch_offset);
    if (dropout != 0.0) options.seed(Seed());
    return options;
  }

 private:
  int64_t Seed() const {
    if (!seed || !seed->defined()) throw InvalidArgument("seed: expected an int64 scalar tensor because dropout is not 0");
    if (seed->numel() != 1 || seed->scalar_type() != at::kLong) {
      throw InvalidArgument("seed: expected one int64 number, got " + std::string(at::toString(seed->scalar_type())) + " " +
                            ShapeText(*seed));
    }
    return seed->item<int64_t>();
  }
};

// NOLINTBEGIN(performance-unnecessary-value-param): the dispatcher hands numbers over by value
std::tuple<at::Tensor, at::Tensor> ForwardOperator(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                                   const OptionalTensor& relative_bias, const OptionalTensor& query_lengths,
                                                   const OptionalTensor& key_lengths, const OptionalTensor& seed,
                                                   std::optional<double> scale, c10::string_view causal,
                                                   std::optional<int64_t> query_offset, std::optional<int64_t> key_offset,
                                                   c10::string_view empty_row, double dropout, int64_t batch_offset) {
  return TranslateErrors([&] {
    CheckAttentionInputs(query, key, value);
    const OptionArguments arguments{relative_bias, query_lengths, key_lengths, seed,    scale,       causal,
                                    query_offset,  key_offset,    empty_row,   dropout, batch_offset};
    const ForwardResult result = AttentionForward(query, key, value, arguments.Resolve(query));
    return std::make_tuple(result.output, result.lse);
  });
}

std::tuple<at::Tensor, at::Tensor> ForwardShape(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                                const OptionalTensor& relative_bias, const OptionalTensor& query_lengths,
                                                const OptionalTensor& key_lengths, const OptionalTensor& seed,
                                                std::optional<double> scale, c10::string_view causal,
                                                std::optional<c10::SymInt> query_offset, std::optional<c10::SymInt> key_offset,
                                                c10::string_view empty_row, double dropout, c10::SymInt batch_offset) {
  TORCH_CHECK_VALUE(query.dim() == 4 && key.dim() == 4 && value.dim() == 4,
                    "query, key, value: expected 4 dimensions [batch, heads, steps, width], got shapes ", query.sym_sizes(),
                    ", ", key.sym_sizes(), ", ", value.sym_sizes());
  return {EmptyOutput(query, value),
          at::empty_symint({query.sym_size(0), query.sym_size(1), query.sym_size(2)}, query.options())};
}

// NOLINTNEXTLINE(readability-function-size): one parameter for each of the schema
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> BackwardOperator(
    const OptionalTensor& d_output, const OptionalTensor& d_lse, const at::Tensor& query, const at::Tensor& key,
    const at::Tensor& value, const at::Tensor& output, const at::Tensor& lse, const OptionalTensor& relative_bias,
    const OptionalTensor& query_lengths, const OptionalTensor& key_lengths, const OptionalTensor& seed,
    std::optional<double> scale, c10::string_view causal, std::optional<int64_t> query_offset,
    std::optional<int64_t> key_offset, c10::string_view empty_row, double dropout, int64_t batch_offset) {
  return TranslateErrors([&] {
    CheckAttentionInputs(query, key, value);
    const at::Tensor d_out = d_output.value_or(at::Tensor()), d_rows = d_lse.value_or(at::Tensor());
    CheckSavedTensors(d_out, d_rows, query, output, lse);
    const OptionArguments arguments{relative_bias, query_lengths, key_lengths, seed,    scale,       causal,
                                    query_offset,  key_offset,    empty_row,   dropout, batch_offset};
    const AttentionOptions options = arguments.Resolve(query);
    const bool has_bias = options.relative_bias().defined();
    Gradients d = AttentionBackward(d_out, d_rows, query, key, value, output, lse, options, has_bias);
    if (!has_bias) {
      d.relative_bias = at::empty({0}, query.options());
    } else if (relative_bias->size(0) != query.size(1)) {
      d.relative_bias = d.relative_bias.sum(0, /*keepdim=*/true);  // one row served all heads
    }
    return std::make_tuple(d.query, d.key, d.value, d.relative_bias);
  });
}

// NOLINTNEXTLINE(readability-function-size): one parameter for each of the schema
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> BackwardShape(
    const OptionalTensor& d_output, const OptionalTensor& d_lse, const at::Tensor& query, const at::Tensor& key,
    const at::Tensor& value, const at::Tensor& output, const at::Tensor& lse, const OptionalTensor& relative_bias,
    const OptionalTensor& query_lengths, const OptionalTensor& key_lengths, const OptionalTensor& seed,
    std::optional<double> scale, c10::string_view causal, std::optional<c10::SymInt> query_offset,
    std::optional<c10::SymInt> key_offset, c10::string_view empty_row, double dropout, c10::SymInt batch_offset) {
  const at::Tensor d_bias = relative_bias && relative_bias->defined()
                                ? at::empty_symint(relative_bias->sym_sizes(), query.options())
                                : at::empty_symint({0}, query.options());
  return {at::empty_like(query), at::empty_like(key), at::empty_like(value), d_bias};
}

at::Tensor WeightsOperator(const at::Tensor& query, const at::Tensor& key, const at::Tensor& lse,
                           const OptionalTensor& relative_bias, const OptionalTensor& query_lengths,
                           const OptionalTensor& key_lengths, std::optional<double> scale, c10::string_view causal,
                           std::optional<int64_t> query_offset, std::optional<int64_t> key_offset, c10::string_view empty_row) {
  return TranslateErrors([&] {
    const OptionalTensor no_seed;
    const OptionArguments arguments{relative_bias, query_lengths, key_lengths, no_seed, scale, causal,
                                    query_offset,  key_offset,    empty_row,   0.0,     0};
    return AttentionWeights(query, key, lse, arguments.Resolve(query));
  });
}

at::Tensor WeightsShape(const at::Tensor& query, const at::Tensor& key, const at::Tensor& lse,
                        const OptionalTensor& relative_bias, const OptionalTensor& query_lengths,
                        const OptionalTensor& key_lengths, std::optional<double> scale, c10::string_view causal,
                        std::optional<c10::SymInt> query_offset, std::optional<c10::SymInt> key_offset,
                        c10::string_view empty_row) {
  return at::empty_symint({query.sym_size(0), query.sym_size(1), query.sym_size(2), key.sym_size(2)}, query.options());
}

// NOLINTEND(performance-unnecessary-value-param)

at::Tensor SinusoidalTableOperator(int64_t steps, int64_t width, int64_t first_position, c10::string_view layout, double base,
                                   c10::string_view angles) {
  return TranslateErrors([&] {
    if (steps < 0 || width < 0) throw InvalidArgument("steps, width: expected 0 or more, got a negative number");
    SinusoidalOptions options;
    options.base = base;
    if (layout != "interleaved" && layout != "halves") {
      throw InvalidArgument("layout: expected 'interleaved' or 'halves', got '" + std::string(layout) + "'");
    }
    if (angles != "f64" && angles != "f32") {
      throw InvalidArgument("angles: expected 'f64' or 'f32', got '" + std::string(angles) + "'");
    }
    options.layout = layout == "halves" ? SinusoidalLayout::kHalves : SinusoidalLayout::kInterleaved;
    options.angles = angles == "f32" ? Angles::kFloat32 : Angles::kFloat64;
    at::Tensor table = at::empty({steps, width}, at::kFloat);
    if (table.numel() > 0) {
      SinusoidalTable(options, first_position, View<float, 2>::Contiguous(table.mutable_data_ptr<float>(), {steps, width}));
    }
    return table;
  });
}

std::vector<double> AlibiSlopesOperator(int64_t heads) {
  return TranslateErrors([&] { return AlibiSlopes(heads); });
}

std::vector<std::string> SupportedTargetsOperator() { return SupportedTargets(); }

std::string VersionOperator() { return HEED_VERSION; }

}  // namespace

TORCH_LIBRARY(heed, m) {
  m.def("attention_forward(Tensor query, Tensor key, Tensor value, " HEED_OPTION_TENSORS
        "Tensor? seed=None, *, " HEED_OPTION_NUMBERS HEED_OPTION_DROPOUT ") -> (Tensor output, Tensor lse)");
  // The gradient of the relative bias is empty when there is none.
  m.def(
      "attention_backward(Tensor? d_output, Tensor? d_lse, Tensor query, Tensor key, Tensor value, Tensor output, Tensor "
      "lse, " HEED_OPTION_TENSORS "Tensor? seed=None, *, " HEED_OPTION_NUMBERS HEED_OPTION_DROPOUT
      ") -> (Tensor d_query, Tensor d_key, Tensor d_value, Tensor d_relative_bias)");
  m.def("attention_weights(Tensor query, Tensor key, Tensor lse, " HEED_OPTION_TENSORS "*, " HEED_OPTION_NUMBERS ") -> Tensor");
  m.def(
      "sinusoidal_table(int steps, int width, int first_position=0, str layout='interleaved', float base=10000.0, "
      "str angles='f64') -> Tensor",
      &SinusoidalTableOperator);
  m.def("alibi_slopes(int heads) -> float[]", &AlibiSlopesOperator);
  m.def("supported_targets() -> str[]", &SupportedTargetsOperator);
  m.def("version() -> str", &VersionOperator);
}

TORCH_LIBRARY_IMPL(heed, CPU, m) {
  m.impl("attention_forward", &ForwardOperator);
  m.impl("attention_backward", &BackwardOperator);
  m.impl("attention_weights", &WeightsOperator);
}

TORCH_LIBRARY_IMPL(heed, Meta, m) {
  m.impl("attention_forward", &ForwardShape);
  m.impl("attention_backward", &BackwardShape);
  m.impl("attention_weights", &WeightsShape);
}

}  // namespace heed::nn
