#include "operator_arguments.h"

#include <array>
#include <span>
#include <string_view>

#include <ATen/ATen.h>

#include "heed/error.h"
#include "tensor_view.h"

namespace heed::nn {
namespace {

using c10::IValue;

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

Precision ParsePrecision(std::string_view name) {
  if (name == "float32") return Precision::kFloat32;
  if (name == "fused") return Precision::kFused;
  throw InvalidArgument("precision: expected 'float32' or 'fused', got '" + std::string(name) + "'");
}

int64_t ToInt(const IValue& value) { return value.toSymInt().guard_int(__FILE__, __LINE__); }

std::vector<int64_t> ToInts(const IValue& value) {
  if (value.isIntList()) return value.toIntVector();
  std::vector<int64_t> ints;
  for (const IValue& one : value.toListRef()) ints.push_back(ToInt(one));
  return ints;
}

// An argument that is no tensor: how it stands in a schema, and what it says.
struct Number {
  const char* schema;
  void (*read)(const IValue& value, AttentionOptions& options);
};

constexpr std::array kNumbers{
    Number{"float? scale=None",
           [](const IValue& value, AttentionOptions& options) {
             if (!value.isNone()) options.scale(value.toDouble());
           }},
    Number{"str causal='none'",
           [](const IValue& value, AttentionOptions& options) { options.causal(ParseCausal(value.toStringView())); }},
    Number{"SymInt window_left=-1",
           [](const IValue& value, AttentionOptions& options) { options.window(ToInt(value), options.window().right); }},
    Number{"SymInt window_right=-1",
           [](const IValue& value, AttentionOptions& options) { options.window(options.window().left, ToInt(value)); }},
    Number{"SymInt? query_offset=None",
           [](const IValue& value, AttentionOptions& options) {
             if (!value.isNone()) options.query_offset(ToInt(value));
           }},
    Number{"SymInt? key_offset=None",
           [](const IValue& value, AttentionOptions& options) {
             if (!value.isNone()) options.key_offset(ToInt(value));
           }},
    Number{"bool symmetric=True", [](const IValue& value, AttentionOptions& options) { options.slopes({}, value.toBool()); }},
    Number{"float? softcap=None",
           [](const IValue& value, AttentionOptions& options) {
             if (!value.isNone()) options.softcap(value.toDouble());
           }},
    Number{"str score_program=''",
           [](const IValue& value, AttentionOptions& options) { options.score_text(std::string(value.toStringView())); }},
    Number{"SymInt[] score_extents=[]",
           [](const IValue& value, AttentionOptions& options) { options.score_extents(ToInts(value)); }},
    Number{"str mask_program=''",
           [](const IValue& value, AttentionOptions& options) { options.mask_text(std::string(value.toStringView())); }},
    Number{"SymInt[] mask_extents=[]",
           [](const IValue& value, AttentionOptions& options) { options.mask_extents(ToInts(value)); }},
    Number{"str empty_row='zero'",
           [](const IValue& value, AttentionOptions& options) { options.empty_row(ParseEmptyRow(value.toStringView())); }},
    Number{"str precision='float32'",
           [](const IValue& value, AttentionOptions& options) { options.precision(ParsePrecision(value.toStringView())); }},
};
constexpr std::array kDropoutNumbers{
    Number{"float dropout=0.0", [](const IValue& value, AttentionOptions& options) { options.dropout(value.toDouble()); }},
    Number{"SymInt batch_offset=0", [](const IValue& value, AttentionOptions& options) { options.batch_offset(ToInt(value)); }},
    Number{"SymInt first_head=0", [](const IValue& value, AttentionOptions& options) { options.first_head(ToInt(value)); }},
    Number{"SymInt first_query=0", [](const IValue& value, AttentionOptions& options) { options.first_query(ToInt(value)); }},
    Number{"SymInt first_key=0", [](const IValue& value, AttentionOptions& options) { options.first_key(ToInt(value)); }},
};

std::string NumberArguments(std::span<const Number> numbers) {
  std::string arguments;
  for (const Number& number : numbers) arguments += c10::str(arguments.empty() ? "" : ", ", number.schema);
  return arguments;
}

}  // namespace

std::string OptionTensors() {
  std::string arguments;
  for (const char* name : AttentionTensors::kNames) arguments += c10::str("Tensor? ", name, "=None, ");
  return arguments;
}

std::string OfOperands(const std::string& prefix, const std::string& suffix) {
  std::string list;
  for (std::size_t t = 0; t < Operands::kCount; ++t) list += c10::str(t == 0 ? "" : ", ", prefix, Operands::Name(t), suffix);
  return list;
}

std::string OptionNumbers() { return NumberArguments(kNumbers); }
std::string DropoutNumbers() { return NumberArguments(kDropoutNumbers); }

Arguments::Arguments(const c10::OperatorHandle& op, torch::jit::Stack* stack, at::DeviceType device) {
  const std::vector<c10::Argument>& described = op.schema().arguments();
  values_.assign(stack->end() - static_cast<std::ptrdiff_t>(described.size()), stack->end());
  torch::jit::drop(*stack, described.size());
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (!values_[i].isTensor() || !values_[i].toTensor().defined()) continue;
    const char* name = described[i].name().c_str();
    if (device == at::kCPU) {
      values_[i] = Dense(name, values_[i].toTensor());
    } else {
      CheckDense(name, values_[i].toTensor(), device);
    }
  }
}

at::Tensor Arguments::Tensor() {
  const IValue& value = Next();
  return value.isNone() ? at::Tensor() : value.toTensor();
}

AttentionTensors Arguments::Tensors() {
  AttentionTensors tensors;
  for (at::Tensor* tensor : tensors.All()) *tensor = Tensor();
  return tensors;
}

Wanted Arguments::Wants() {
  Wanted wanted{};
  for (bool& operand : wanted) operand = Bool();
  return wanted;
}

AttentionOptions Arguments::Options() {
  AttentionOptions options;
  for (const Number& number : kNumbers) number.read(Next(), options);
  return options;
}

void Arguments::Dropout(AttentionOptions& options) {
  for (const Number& number : kDropoutNumbers) number.read(Next(), options);
}

void Arguments::Dropout(const at::Tensor& seed, AttentionOptions& options) {
  Dropout(options);
  if (options.dropout() == 0.0) return;
  if (!seed.defined()) throw InvalidArgument("seed: expected an int64 scalar tensor because dropout is not 0");
  if (seed.numel() != 1 || seed.scalar_type() != at::kLong) {
    throw InvalidArgument("seed: expected one int64 number, got " + std::string(at::toString(seed.scalar_type())) + " " +
                          ShapeText(seed));
  }
  options.seed(*AddressOf<const int64_t>(seed));
}

}  // namespace heed::nn
