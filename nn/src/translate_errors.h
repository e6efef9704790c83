// heed's exceptions as those that PyTorch hands to Python.
#ifndef HEED_NN_SRC_TRANSLATE_ERRORS_H_
#define HEED_NN_SRC_TRANSLATE_ERRORS_H_

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include <c10/util/Exception.h>
#include <torch/library.h>

#include "heed/error.h"

namespace heed::nn {

// A message of the engine's with the names that operators have for what it names.
inline std::string InNamesOfOperators(std::string message) {
  constexpr std::array<std::array<std::string_view, 2>, 4> kFirst{
      {{"q: ", "query: "}, {"k: ", "key: "}, {"v: ", "value: "}, {"dropout.probability: ", "dropout: "}}};
  for (const auto& [name, ours] : kFirst)
    if (message.starts_with(name)) message.replace(0, name.size(), ours);
  constexpr std::array<std::array<std::string_view, 2>, 2> kWithin{{{" q is ", " query is "}, {" k is ", " key is "}}};
  for (const auto& [name, ours] : kWithin)
    if (const std::size_t at = message.find(name); at != std::string::npos) message.replace(at, name.size(), ours);
  return message;
}

template <auto kFunction>
struct Kernel;
template <class Result, class... Arguments, Result (*kFunction)(Arguments...)>
struct Kernel<kFunction> {
  static Result Call(Arguments... arguments) {
    try {
      return kFunction(std::forward<Arguments>(arguments)...);
    } catch (const InvalidArgument& error) {
      TORCH_CHECK_VALUE(false, InNamesOfOperators(error.what()));
    } catch (const Error& error) {
      TORCH_CHECK(false, InNamesOfOperators(error.what()));
    }
  }
};

// A function as the kernel of an operator with the same arguments. InvalidArgument arrives in Python as ValueError, every other
// error of heed as RuntimeError.
template <auto kFunction>
inline constexpr auto* kKernel = &Kernel<kFunction>::Call;
// The same of a function that takes its arguments on a stack.
template <auto kFunction>
torch::CppFunction BoxedKernel() {
  return torch::CppFunction::makeFromBoxedFunction<&Kernel<kFunction>::Call>();
}

}  // namespace heed::nn

#endif  // HEED_NN_SRC_TRANSLATE_ERRORS_H_
