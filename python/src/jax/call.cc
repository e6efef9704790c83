#include "call.h"

#include <algorithm>

namespace heed::jax {
namespace {

// Options that say something of each batch row alone. Dropout counts the rows of a call, and of everything else one array may
// serve, or gather, all of them.
bool IsPerRow(const Array& array) {
  return array.name == "query_lengths" || array.name == "key_lengths" || array.name == "prefix_lengths";
}

bool IsUnmapped(const Array& array) {
  return std::ranges::all_of(array.mapped, [](int64_t extent) { return extent == 1; });
}

bool IsOperand(const Array& array) {
  constexpr std::string_view kOperands[] = {"query",       "key",           "value",     "d_output",     "d_lse",
                                            "output",      "lse",           "remainder", "correction",   "entropy",
                                            "max_weight",  "mean_distance", "d_entropy", "d_max_weight", "d_mean_distance",
                                            "largest_key", "t_query",       "t_key",     "t_value",      "t_output",
                                            "t_lse",       "t_d_output",    "t_d_lse"};
  return std::ranges::find(kOperands, array.name) != std::end(kOperands);
}

bool Folds(const Call& call) {
  if (call.settings.Has("dropout") || call.inputs.Get("query").extent.size() != 4) return false;
  return std::ranges::all_of(call.inputs.all(), [&](const Array& array) {
    return call.slices.AllIn(array) ? IsOperand(array) || IsPerRow(array) : IsPerRow(array) && IsUnmapped(array);
  });
}

}  // namespace

Call::Call(const xla::ffi::RemainingArgs& arguments, const xla::ffi::RemainingRets& given_results, std::string_view operands,
           std::string_view result_list, std::string_view settings_text)
    : settings(settings_text), inputs(arguments, operands), results(given_results, result_list) {
  slices.Cover(inputs);
  slices.Cover(results);
}

Call::Call(std::string_view described, std::string_view settings_text)
    : settings(settings_text), inputs(Arrays::Described(described)) {
  slices.Cover(inputs);
}

void FoldIntoBatch(Call& call) {
  if (!Folds(call)) return;
  const int64_t count = call.slices.count();
  for (Arrays* arrays : {&call.inputs, &call.results}) {
    for (Array& array : arrays->all()) {
      (call.slices.AllIn(array) ? array.extent.front() : array.repeats) *= count;
      array.mapped.clear();
    }
  }
  call.slices = Slices();
}

}  // namespace heed::jax
