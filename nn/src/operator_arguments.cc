#include "operator_arguments.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <span>
#include <string_view>

#include <ATen/ATen.h>

#include "heed/error.h"
#include "heed/option_names.h"
#include "tensor_view.h"

namespace heed::nn {
namespace {

using c10::IValue;

int64_t ToInt(const IValue& value) { return value.toSymInt().guard_int(__FILE__, __LINE__); }

std::vector<int64_t> ToInts(const IValue& value) {
  if (value.isIntList()) return value.toIntVector();
  std::vector<int64_t> ints;
  for (const IValue& one : value.toListRef()) ints.push_back(ToInt(one));
  return ints;
}

// A choice by its name.
template <class Choice>
IValue Named(Choice choice) {
  return IValue(std::string(NameOf(choice)));
}

// An argument that is no tensor: how it stands in a schema, what it says, and how options are written as one.
struct Number {
  const char* schema;
  void (*read)(const IValue& value, AttentionOptions& options);
  IValue (*write)(const AttentionOptions& options);
};

constexpr std::array kNumbers{
    Number{"float? scale=None",
           [](const IValue& value, AttentionOptions& options) {
             if (!value.isNone()) options.scale(value.toDouble());
           },
           [](const AttentionOptions& options) { return IValue(options.scale()); }},
    Number{"str causal='none'",
           [](const IValue& value, AttentionOptions& options) {
             options.causal(ChoiceNamed<Causal>("causal", value.toStringView()));
           },
           [](const AttentionOptions& options) { return Named(options.causal()); }},
    Number{"SymInt window_left=-1",
           [](const IValue& value, AttentionOptions& options) { options.window(ToInt(value), options.window().right); },
           [](const AttentionOptions& options) { return IValue(options.window().left); }},
    Number{"SymInt window_right=-1",
           [](const IValue& value, AttentionOptions& options) { options.window(options.window().left, ToInt(value)); },
           [](const AttentionOptions& options) { return IValue(options.window().right); }},
    Number{"SymInt? query_offset=None",
           [](const IValue& value, AttentionOptions& options) {
             if (!value.isNone()) options.query_offset(ToInt(value));
           },
           [](const AttentionOptions& options) { return IValue(options.query_offset()); }},
    Number{"SymInt? key_offset=None",
           [](const IValue& value, AttentionOptions& options) {
             if (!value.isNone()) options.key_offset(ToInt(value));
           },
           [](const AttentionOptions& options) { return IValue(options.key_offset()); }},
    Number{"bool symmetric=True", [](const IValue& value, AttentionOptions& options) { options.symmetric(value.toBool()); },
           [](const AttentionOptions& options) { return IValue(options.symmetric()); }},
    Number{"float? softcap=None",
           [](const IValue& value, AttentionOptions& options) {
             if (!value.isNone()) options.softcap(value.toDouble());
           },
           [](const AttentionOptions& options) { return IValue(options.softcap()); }},
    Number{"str score_program=''",
           [](const IValue& value, AttentionOptions& options) { options.score_text(std::string(value.toStringView())); },
           [](const AttentionOptions& options) { return IValue(options.score() ? options.score()->Text() : ""); }},
    Number{"SymInt[] score_extents=[]",
           [](const IValue& value, AttentionOptions& options) { options.score_extents(ToInts(value)); },
           [](const AttentionOptions& options) { return IValue(options.score_extents()); }},
    Number{
        "str mask_program=''",
        [](const IValue& value, AttentionOptions& options) { options.mask_text(std::string(value.toStringView())); },
        [](const AttentionOptions& options) { return IValue(options.mask_program() ? options.mask_program()->Text() : ""); }},
    Number{"SymInt[] mask_extents=[]",
           [](const IValue& value, AttentionOptions& options) { options.mask_extents(ToInts(value)); },
           [](const AttentionOptions& options) { return IValue(options.mask_extents()); }},
    Number{"str empty_row='zero'",
           [](const IValue& value, AttentionOptions& options) {
             options.empty_row(ChoiceNamed<EmptyRow>("empty_row", value.toStringView()));
           },
           [](const AttentionOptions& options) { return Named(options.empty_row()); }},
    Number{"str precision='float32'",
           [](const IValue& value, AttentionOptions& options) {
             options.precision(ChoiceNamed<Precision>("precision", value.toStringView()));
           },
           [](const AttentionOptions& options) { return Named(options.precision()); }},
};
constexpr std::array kDropoutNumbers{
    Number{"float dropout=0.0", [](const IValue& value, AttentionOptions& options) { options.dropout(value.toDouble()); },
           [](const AttentionOptions& options) { return IValue(options.dropout()); }},
    Number{"SymInt batch_offset=0", [](const IValue& value, AttentionOptions& options) { options.batch_offset(ToInt(value)); },
           [](const AttentionOptions& options) { return IValue(options.batch_offset()); }},
    Number{"SymInt first_head=0", [](const IValue& value, AttentionOptions& options) { options.first_head(ToInt(value)); },
           [](const AttentionOptions& options) { return IValue(options.first_head()); }},
    Number{"SymInt first_query=0", [](const IValue& value, AttentionOptions& options) { options.first_query(ToInt(value)); },
           [](const AttentionOptions& options) { return IValue(options.first_query()); }},
    Number{"SymInt first_key=0", [](const IValue& value, AttentionOptions& options) { options.first_key(ToInt(value)); },
           [](const AttentionOptions& options) { return IValue(options.first_key()); }},
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

std::vector<IValue> NumbersOf(const AttentionOptions& options) {
  std::vector<IValue> values;
  values.reserve(kNumbers.size() + kDropoutNumbers.size());
  for (const Number& number : kNumbers) values.push_back(number.write(options));
  for (const Number& number : kDropoutNumbers) values.push_back(number.write(options));
  return values;
}

AttentionOptions OptionsFrom(const std::vector<IValue>& numbers, const at::Tensor& seed) {
  AttentionOptions options;
  auto value = numbers.begin();
  for (const Number& number : kNumbers) number.read(*value++, options);
  for (const Number& number : kDropoutNumbers) number.read(*value++, options);
  if (seed.defined()) options.seed(*AddressOf<const int64_t>(seed));
  return options;
}

std::vector<std::pair<std::string, IValue>> NamedNumbers(const AttentionOptions& options) {
  std::vector<std::pair<std::string, IValue>> named;
  const auto add = [&](const Number& number) {
    const std::string_view schema = number.schema, name = schema.substr(0, schema.find('='));
    named.emplace_back(name.substr(name.find(' ') + 1), number.write(options));
  };
  for (const Number& number : kNumbers) add(number);
  for (const Number& number : kDropoutNumbers) add(number);
  return named;
}

Arguments::Arguments(const c10::OperatorHandle& op, torch::jit::Stack* stack, at::DeviceType device) {
  const std::vector<c10::Argument>& described = op.schema().arguments();
  values_.assign(std::make_move_iterator(stack->end() - static_cast<std::ptrdiff_t>(described.size())),
                 std::make_move_iterator(stack->end()));
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
  wanted.fill(true);
  const IValue& given = Next();
  if (given.isNone()) return wanted;
  const c10::List<bool> each = given.toBoolList();
  if (each.size() != wanted.size())
    throw InvalidArgument("wanted: expected " + std::to_string(wanted.size()) + " bools, one for each gradient, got " +
                          std::to_string(each.size()));
  std::copy(each.begin(), each.end(), wanted.begin());
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
