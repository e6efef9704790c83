// Every positional scheme of the list is tried out: whoever loops over cases, options or costs meets it.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "heed/attention.h"
#include "position/schemes.h"
#include "problem.h"
#include "reference/case_table.h"
#include "reference/random_cases.h"
#include "reference/schemes.h"
#include "reference/trial_setup.h"

namespace heed {
namespace {

using reference::Case;

static_assert(std::tuple_size_v<position::Schemes> == reference::kSchemes);

// Calls visit.template operator()<plain part, reference>(name) for every scheme.
template <class Visit>
void ForEachSchemeByName(const Visit& visit) {
  reference::ForSchemes<0, reference::kSchemes>([&]<class Reference, std::size_t at>() {
    visit.template operator()<std::tuple_element_t<at, position::Schemes>, Reference>(reference::kSchemeNames[at]);
  });
}

// Whether a call with the case asks for the scheme.
template <class Scheme>
bool AsksFor(const Case& c) {
  std::mt19937_64 random(1);
  const reference::Setup<float> setup(c, 1, random);
  return Scheme::Present(setup.attention);
}

TEST(EveryScheme, HasCasesInTheTable) {
  ForEachSchemeByName([]<class Scheme, class Reference>(const char* scheme) {
    reference::CaseTable table;
    Reference::AddCases(table);
    EXPECT_FALSE(table.rows().empty()) << scheme;
    for (const Case& c : table.rows()) {
      EXPECT_TRUE(AsksFor<Scheme>(c)) << scheme << ": " << c.name;
      EXPECT_TRUE(reference::NamedCase(c.name).has_value()) << scheme << ": " << c.name;
    }
  });
}

TEST(EveryScheme, HasOptionsForPairs) {
  ForEachSchemeByName([]<class Scheme, class Reference>(const char* scheme) {
    std::vector<reference::Option> options;
    Reference::AddOptions(options);
    EXPECT_FALSE(options.empty()) << scheme;
    for (const reference::Option& option : options) {
      EXPECT_TRUE(AsksFor<Scheme>(reference::PairCase(option, option, 1))) << scheme << ": " << option.name;
      EXPECT_TRUE(reference::NamedCase("pair " + option.name + " + " + option.name + " 1").has_value()) << option.name;
    }
  });
}

TEST(EveryScheme, HasCosts) {
  ForEachSchemeByName([]<class Scheme, class Reference>(const char* scheme) {
    std::vector<reference::Cost> costs;
    Reference::AddCosts(costs);
    EXPECT_FALSE(costs.empty()) << scheme;
    for (const reference::Cost& cost : costs) {
      Case c{};
      c.shape = {1, 4, 4, 64, 64, 16, 16};
      cost.set(c);
      EXPECT_TRUE(AsksFor<Scheme>(c)) << scheme << ": " << cost.name;
    }
  });
}

TEST(EveryScheme, IsInRandomCases) {
  ForEachSchemeByName([]<class Scheme, class Reference>(const char* scheme) {
    uint64_t seed = 1;
    while (seed < 200 && !AsksFor<Scheme>(reference::RandomCases(seed).back())) ++seed;
    EXPECT_LT(seed, 200) << scheme;
  });
}

// What the engine may be asked for and what trials compare, by the views of the gradients.
TEST(EveryScheme, HasAllItsGradientsCompared) {
  for (const Case& c : reference::Cases()) {
    std::mt19937_64 random(1);
    const reference::Setup<float> setup(c, 1, random);
    ForEachSchemeByName([&]<class Scheme, class Reference>(const char* scheme) {
      BiasGradients<float> gradients;
      std::vector<const void*> offered, compared;
      Scheme::ForEachGradient(setup.attention, gradients, [&](const char*, auto& gradient, const auto* table) {
        if (table) offered.push_back(&gradient);
      });
      Reference::ForEachTable(setup.attention, gradients,
                              [&](const char*, const auto&, auto& gradient) { compared.push_back(&gradient); });
      EXPECT_EQ(offered, compared) << scheme << ": " << c.name;
    });
  }
}

// Tables may hold the other type of accumulation than the call; what is representable in both gives the same bits.
TEST(EveryScheme, TakesTablesOfTheOtherType) {
  const Shape shape{2, 2, 2, 40, 50, 4, 4};
  std::vector<float> single(2 * 11 * 4);
  for (std::size_t x = 0; x < single.size(); ++x) single[x] = static_cast<float>(x % 13) / 8 - 0.5F;
  const std::vector<double> twice(single.begin(), single.end());
  const auto run = [&](const auto& numbers) {
    using V = typename std::remove_cvref_t<decltype(numbers)>::value_type;
    const auto rows = View<const V, 2>::Contiguous(numbers.data(), {11, 4});
    Attention attention;
    attention.bias = Bias{View<const V, 4>::Contiguous(numbers.data(), {1, 1, 1, 50})};
    attention.relative_bias = RelativeBias{View<const V, 2>::Contiguous(numbers.data(), {2, 11})};
    attention.slope_bias = SlopeBias{View<const V, 1>::Contiguous(numbers.data(), {2})};
    attention.content_bias = ContentBias{rows, rows, rows};
    attention.transformer_xl = TransformerXl{View<const V, 3>::Contiguous(numbers.data(), {2, 11, 4}),
                                             View<const V, 2>::Contiguous(numbers.data(), {2, 4})};
    Problem<float> problem(shape);
    ThreadPool pool(2);
    problem.Forward(attention, pool);
    Backward(attention, problem.Queries(problem.q), problem.Keys(problem.k), problem.Values(problem.v),
             problem.Outputs(problem.out), problem.Lse(), problem.Outputs(problem.d_out), problem.Queries(problem.d_q),
             problem.Keys(problem.d_k), problem.Values(problem.d_v), {}, problem.workspace, pool);
    return problem;
  };
  const Problem<float> a = run(single), b = run(twice);
  EXPECT_TRUE(a.out == b.out);
  EXPECT_TRUE(a.d_q == b.d_q);
  EXPECT_TRUE(a.d_k == b.d_k);
  EXPECT_TRUE(a.d_v == b.d_v);
}

}  // namespace
}  // namespace heed
