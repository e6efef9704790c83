// Loops over the positional schemes of the list in engine/CMakeLists.txt.
#ifndef HEED_REFERENCE_SCHEMES_H_
#define HEED_REFERENCE_SCHEMES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <random>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "position/references.h"
#include "reference/scheme.h"

namespace heed::reference {

constexpr std::size_t kSchemes = std::tuple_size_v<SchemeReferences>;
// The first schemes of the list draw from the stream of a case, in the middle of what else is drawn there. Those behind them
// have streams of their own, random cases of their own, and come last among the options, so that every case stays what it is
// when a scheme is appended to the list.
constexpr std::size_t kFirstSchemes = std::min<std::size_t>(4, kSchemes);

// Calls visit.template operator()<Scheme, place in the list>() for the schemes from kBegin to kEnd.
template <std::size_t kBegin, std::size_t kEnd, class Visit>
void ForSchemes(const Visit& visit) {
  const auto each = [&]<std::size_t... at>(std::index_sequence<at...>) {
    (visit.template operator()<std::tuple_element_t<kBegin + at, SchemeReferences>, kBegin + at>(), ...);
  };
  each(std::make_index_sequence<kEnd - kBegin>());
}

// Calls visit.template operator()<Scheme>() for every scheme of the list.
template <class Visit>
void ForEachScheme(const Visit& visit) {
  ForSchemes<0, kSchemes>([&]<class Scheme, std::size_t>() { visit.template operator()<Scheme>(); });
}

// Calls draw.template operator()<Scheme>(stream) for the first schemes, and for those behind them.
template <class Draw>
void DrawFirst(Random& stream, const Draw& draw) {
  ForSchemes<0, kFirstSchemes>([&]<class Scheme, std::size_t>() { draw.template operator()<Scheme>(stream); });
}
template <class Draw>
void DrawLater(uint64_t seed, const Draw& draw) {
  ForSchemes<kFirstSchemes, kSchemes>([&]<class Scheme, std::size_t at>() {
    const std::string_view name = kSchemeNames[at];
    std::vector<uint32_t> words{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
    std::copy(name.begin(), name.end(), std::back_inserter(words));
    std::seed_seq seeds(words.begin(), words.end());
    Random stream(seeds);
    draw.template operator()<Scheme>(stream);
  });
}

}  // namespace heed::reference

#endif  // HEED_REFERENCE_SCHEMES_H_
