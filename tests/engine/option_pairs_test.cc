// Every option, alone and with every other, on random shapes and strides: either it agrees with the double reference, or it is
// refused by an error that names both.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <string_view>

#include "accuracy.h"
#include "heed/attention.h"
#include "reference/random_cases.h"
#include "targets.h"

namespace heed {
namespace {

using reference::Case;
using reference::Option;

// The pairs that mean nothing, but for those of positional schemes; docs/attention.md lists them.
bool AreRefusedByCalls(std::string_view a, std::string_view b) {
  struct Pair {
    std::string_view first, second;  // a name and the end of another
  };
  constexpr std::array kRefused{Pair{"causal top-left", "query offset"},
                                Pair{"causal top-left", " positions"},
                                Pair{"window", "prefix"},
                                Pair{"prefix", " positions"},
                                Pair{"query offset", " positions"},
                                Pair{"key offset", " positions"},
                                Pair{"packed", "weights"}};
  return std::any_of(kRefused.begin(), kRefused.end(), [&](const Pair& pair) {
    const auto fits = [&](std::string_view x, std::string_view y) { return x == pair.first && y.ends_with(pair.second); };
    return fits(a, b) || fits(b, a);
  });
}

bool AreRefused(const Option& a, const Option& b) {
  const auto refuses = [](const Option& x, const Option& y) {
    return std::count(x.manners.refuses.begin(), x.manners.refuses.end(), y.name) > 0;
  };
  return refuses(a, b) || refuses(b, a) || AreRefusedByCalls(a.name, b.name);
}

bool HasPairs(const Shape& shape) { return shape.batch > 0 && shape.q_len > 1 && shape.kv_len > 1; }

// Calls visit(a, b, number) for every option alone and for every two that can be asked for at once.
void ForEachPair(const std::function<void(const Option&, const Option&, uint64_t)>& visit) {
  uint64_t number = 0;
  const auto& options = reference::Options();
  for (size_t a = 0; a < options.size(); ++a)
    for (size_t b = a; b < options.size(); ++b)
      if (a == b || reference::AreApart(options[a], options[b])) visit(options[a], options[b], number++);
}

template <class T>
void CheckPair(const Option& a, const Option& b, uint64_t seed, const char* type) {
  const Case c = reference::PairCase(a, b, seed);
  const bool refused = AreRefused(a, b);
  try {
    ExpectAccurate<T>(c, seed, type);
    // Without tokens there is no position that could be wrong.
    EXPECT_FALSE(refused && HasPairs(c.shape)) << c.name << ": expected to be refused";
  } catch (const InvalidArgument& error) {
    EXPECT_TRUE(refused) << c.name << ": " << error.what();
    for (const std::string& argument : {a.argument, b.argument})
      EXPECT_NE(std::string(error.what()).find(argument), std::string::npos)
          << c.name << ": \"" << error.what() << "\" does not name " << argument;
  }
}

// Shapes with 0 or 1 on the way to the first that has pairs of queries and keys. Of the pairs that are not refused every fifth
// is tried; the long test tries them all.
TEST(OptionPairs, AgreeWithTheReferenceOrAreRefusedByBothNames) {
  ForEachPair([](const Option& a, const Option& b, uint64_t number) {
    if (number % 5 != 0 && !AreRefused(a, b)) return;
    uint64_t seed = 1000 * number;
    do CheckPair<double>(a, b, seed, "float64");
    while (!HasPairs(reference::PairCase(a, b, seed++).shape));
  });
}

class LongOptionPairs : public OnTarget {};

TEST_P(LongOptionPairs, AgreeInEveryType) {
  ForEachPair([](const Option& a, const Option& b, uint64_t number) {
    uint64_t seed = 1000 * number + 500;
    while (!HasPairs(reference::PairCase(a, b, seed).shape)) ++seed;
    CheckPair<float>(a, b, seed, "float32");
    CheckPair<double>(a, b, seed, "float64");
    CheckPair<BFloat16>(a, b, seed, "bfloat16");
    CheckPair<Float16>(a, b, seed, "float16");
  });
}

HEED_ON_TARGETS(LongOptionPairs);

}  // namespace
}  // namespace heed
