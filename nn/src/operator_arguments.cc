#include "operator_arguments.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

#include <ATen/ATen.h>

#include "heed/error.h"
#include "heed/option_names.h"
#include "refuse.h"
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

// "scale" of "float? scale=None".
std::string_view NameIn(std::string_view schema) {
  const std::string_view name = schema.substr(0, schema.find('='));
  return name.substr(name.find(' ') + 1);
}

// What an argument that is not None says.
void Read(const IValue& value, const char*, int64_t& option) { option = ToInt(value); }
void Read(const IValue& value, const char*, double& option) { option = value.toDouble(); }
void Read(const IValue& value, const char*, bool& option) { option = value.toBool(); }
void Read(const IValue& value, const char*, std::vector<int64_t>& option) { option = ToInts(value); }
template <class T>
void Read(const IValue& value, const char* schema, std::optional<T>& option) {
  if (!value.isNone()) Read(value, schema, option.emplace());
}
template <class Choice>
  requires std::is_enum_v<Choice>
void Read(const IValue& value, const char* schema, Choice& option) {
  option = ChoiceNamed<Choice>(std::string(NameIn(schema)), value.toStringView());
}

// An option as an argument, a choice by its name. Texts are made once: each is an allocation, and every call under autograd
// keeps five of them.
template <class T>
IValue Written(const T& option) {
  if constexpr (std::is_enum_v<T>) {
    static const std::vector<IValue> names = [] {
      std::vector<IValue> made;
      for (const ChoiceName<T>& choice : kChoices<T>) made.emplace_back(std::string(choice.name));
      return made;
    }();
    return names[static_cast<std::size_t>(std::ranges::find(kChoices<T>, option, &ChoiceName<T>::choice) -
                                          kChoices<T>.begin())];
  } else {
    return IValue(option);
  }
}
IValue TextOf(const auto& program) {
  static const IValue none("");
  return program ? IValue(program->Text()) : none;
}

// An argument that is no tensor: how it stands in a schema, what it says, and how options are written as one.
struct Number {
  const char* schema;
  void (*read)(const char* schema, const IValue& value, AttentionOptions& options);
  IValue (*write)(const AttentionOptions& options);
};

// Of an option that is kept as the argument says it: option(options) is a reference to it.
template <class Option>
constexpr Number Plain(const char* schema, Option) {
  return {schema, [](const char* of, const IValue& value, AttentionOptions& options) { Read(value, of, Option{}(options)); },
          [](const AttentionOptions& options) { return Written(Option{}(options)); }};
}

constexpr std::array kNumbers{
    Plain("float? scale=None", [](auto& options) -> auto& { return options.scale(); }),
    Plain("str causal='none'", [](auto& options) -> auto& { return options.causal(); }),
    Plain("SymInt window_left=-1", [](auto& options) -> auto& { return options.window().left; }),
    Plain("SymInt window_right=-1", [](auto& options) -> auto& { return options.window().right; }),
    Plain("SymInt? query_offset=None", [](auto& options) -> auto& { return options.query_offset(); }),
    Plain("SymInt? key_offset=None", [](auto& options) -> auto& { return options.key_offset(); }),
    Plain("bool symmetric=True", [](auto& options) -> auto& { return options.symmetric(); }),
    Plain("float? softcap=None", [](auto& options) -> auto& { return options.softcap(); }),
    Number{"str score_program=''",
           [](const char*, const IValue& value, AttentionOptions& options) {
             options.score_text(std::string(value.toStringView()));
           },
           [](const AttentionOptions& options) { return TextOf(options.score()); }},
    Plain("SymInt[] score_extents=[]", [](auto& options) -> auto& { return options.score_extents(); }),
    Number{"str mask_program=''",
           [](const char*, const IValue& value, AttentionOptions& options) {
             options.mask_text(std::string(value.toStringView()));
           },
           [](const AttentionOptions& options) { return TextOf(options.mask_program()); }},
    Plain("SymInt[] mask_extents=[]", [](auto& options) -> auto& { return options.mask_extents(); }),
    Plain("str empty_row='zero'", [](auto& options) -> auto& { return options.empty_row(); }),
    Plain("str precision='float32'", [](auto& options) -> auto& { return options.precision(); }),
    Plain("float dropout=0.0", [](auto& options) -> auto& { return options.dropout(); }),
    Plain("SymInt batch_offset=0", [](auto& options) -> auto& { return options.batch_offset(); }),
    Plain("SymInt first_head=0", [](auto& options) -> auto& { return options.first_head(); }),
    Plain("SymInt first_query=0", [](auto& options) -> auto& { return options.first_query(); }),
    Plain("SymInt first_key=0", [](auto& options) -> auto& { return options.first_key(); }),
};

std::span<const Number> NumbersWith(bool dropout) {
  constexpr std::size_t kOfDropout = 5;
  return std::span(kNumbers).first(kNumbers.size() - (dropout ? 0 : kOfDropout));
}

}  // namespace

std::string OptionTensors() {
  std::string arguments;
  for (const char* name : AttentionTensors::kNames) arguments += c10::str("Tensor? ", name, "=None, ");
  return arguments;
}

std::string OptionNumbers(bool dropout) {
  std::string arguments;
  for (const Number& number : NumbersWith(dropout)) arguments += c10::str(arguments.empty() ? "" : ", ", number.schema);
  return arguments;
}

std::vector<IValue> NumbersOf(const AttentionOptions& options) {
  std::vector<IValue> values;
  values.reserve(kNumbers.size());
  for (const Number& number : kNumbers) values.push_back(number.write(options));
  return values;
}

AttentionOptions OptionsFrom(const std::vector<IValue>& numbers, const at::Tensor& seed) {
  AttentionOptions options;
  auto value = numbers.begin();
  for (const Number& number : kNumbers) number.read(number.schema, *value++, options);
  if (seed.defined()) options.seed(*AddressOf<const int64_t>(seed));
  return options;
}

std::vector<std::pair<std::string, IValue>> NamedNumbers(const AttentionOptions& options) {
  std::vector<std::pair<std::string, IValue>> named;
  for (const Number& number : kNumbers) named.emplace_back(NameIn(number.schema), number.write(options));
  return named;
}

Arguments::Arguments(const c10::OperatorHandle& op, torch::jit::Stack* stack, at::DeviceType device) : device_(device) {
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
    Refuse("wanted: expected ", wanted.size(), " bools, one for each gradient, got ", each.size());
  std::copy(each.begin(), each.end(), wanted.begin());
  return wanted;
}

AttentionOptions Arguments::Options(bool dropout) {
  AttentionOptions options;
  for (const Number& number : NumbersWith(dropout)) number.read(number.schema, Next(), options);
  return options;
}

AttentionOptions Arguments::Options(const at::Tensor& seed) {
  AttentionOptions options = Options(/*dropout=*/true);
  if (options.dropout() == 0.0 || device_ != at::kCPU) return options;
  if (!seed.defined()) throw InvalidArgument("seed: expected an int64 scalar tensor because dropout is not 0");
  if (seed.numel() != 1 || seed.scalar_type() != at::kLong) {
    Refuse("seed: expected one int64 number, got ", seed.scalar_type(), " ", ShapeText(seed));
  }
  options.seed(*AddressOf<const int64_t>(seed));
  return options;
}

BackwardCall::BackwardCall(Arguments& arguments) {
  d_results.output = arguments.Tensor(), d_results.lse = arguments.Tensor();
  saved.query = arguments.Tensor(), saved.key = arguments.Tensor(), saved.value = arguments.Tensor();
  saved.output = arguments.Tensor(), saved.lse = arguments.Tensor();
  saved.remainder = PresentRemainder(arguments.Tensor());
  saved.correction = PresentCorrection(arguments.Tensor(), saved.lse);
  CheckAttentionInputs(saved.query, saved.key, saved.value);
  CheckSavedTensors(d_results.output, d_results.lse, saved.query, saved.output, saved.lse);
  tensors = arguments.Tensors();
  seed = arguments.Tensor();
}

std::string BackwardTensors() {
  return "Tensor? d_output, Tensor? d_lse, Tensor query, Tensor key, Tensor value, Tensor output, Tensor lse, "
         "Tensor? remainder, Tensor? correction, " +
         OptionTensors() + "Tensor? seed=None, ";
}

}  // namespace heed::nn
