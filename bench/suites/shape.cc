#include "bench/suites/shape.h"

#include <algorithm>

#include <fmt/core.h>

#include "heed/error.h"

namespace heed::lab {

Fields FieldsOf(ShapeOptions& options) {
  constexpr int64_t kMost = int64_t{1} << 40;
  return {OrNone(Whole("n", &options.lengths, 1, kMost,
                       "Keys, and queries unless --queries is given: numbers with commas, and ranges 1024:65536 that double; "
                       "one call for each")),
          Whole("queries", &options.queries, 0, kMost, "Queries, the last of the sequence; 0: as many as keys"),
          Whole("batch", &options.batch, 1, kMost, "Sequences"),
          Whole("heads", &options.heads, 1, kMost, "Query heads"),
          Whole("key_heads", &options.key_heads, 0, kMost, "Key heads; 0: as many as query heads"),
          Whole("width", &options.width, 1, kMost, "Width of a head"),
          Switch("causal", options.causal, "Queries see no later keys"),
          Whole("window", &options.window, 0, kMost, "Keys that a query sees, the last of them its own; 0: all"),
          Names("type", &options.type, TypeNames(), "Elements"),
          Names("pass", &options.pass, {"forward", "backward", "both"}, "Pass to measure")};
}

std::string ShapeCall::OptionText() const {
  std::string text = attention.causal == Causal::kNone ? "full" : "causal";
  if (attention.window.present()) text = fmt::format("window {}", attention.window.left + 1);
  return type == BenchType::kFloat ? text : text + ", " + TypeNames().at(static_cast<std::size_t>(type));
}

std::vector<ShapeCall> CallsOf(const ShapeOptions& options) {
  const int64_t key_heads = options.key_heads == 0 ? options.heads : options.key_heads;
  if (options.heads % key_heads != 0)
    throw InvalidArgument(
        fmt::format("--key-heads: expected a number that divides --heads {}, got {}", options.heads, key_heads));
  std::vector<ShapeCall> calls;
  for (const int64_t n : options.lengths)
    for (const bool backward : {false, true}) {
      if (options.pass == (backward ? "forward" : "backward")) continue;
      ShapeCall& call = calls.emplace_back();
      const int64_t queries = options.queries == 0 ? n : options.queries;
      call.shape = {options.batch, options.heads, key_heads, queries, n, options.width, options.width};
      // A window ends at the query's own key, with or without --causal.
      if (options.causal || options.window > 0) call.attention.causal = Causal::kBottomRight;
      if (options.window > 0) call.attention.window.left = options.window - 1;
      call.type = static_cast<BenchType>(std::ranges::find(TypeNames(), options.type) - TypeNames().begin());
      call.backward = backward;
    }
  return calls;
}

}  // namespace heed::lab
