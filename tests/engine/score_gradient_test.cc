// Gradients of score programs beside finite differences in double.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "heed/attention.h"
#include "position/pair_program/reference.h"
#include "problem.h"
#include "reference/cases.h"
#include "reference/trial_setup.h"

namespace heed {
namespace {

// What a call weighs its outputs with, as a function of numbers that may be moved.
class Loss {
 public:
  Loss(const Shape& shape, const Attention& attention) : problem_(shape), attention_(attention) {}

  Problem<double>& problem() { return problem_; }
  double operator()() {
    problem_.Forward(attention_, serial_);
    double sum = 0;
    for (std::size_t x = 0; x < problem_.out.size(); ++x) sum += problem_.out[x] * problem_.d_out[x];
    return sum;
  }
  void Differentiate() { problem_.Run(attention_, serial_); }
  double Slope(double& number) {
    constexpr double kStep = 1e-5;
    const double here = number;
    number = here + kStep;
    const double above = (*this)();
    number = here - kStep;
    const double below = (*this)();
    number = here;
    return (above - below) / (2 * kStep);
  }

 private:
  Problem<double> problem_;
  const Attention& attention_;
  SerialExecutor serial_;
};

void CompareWithSlopes(const reference::Case& c) {
  std::mt19937_64 random(c.program_seed + 1);
  const reference::Setup<double> setup(c, 1, random);
  Attention attention = setup.attention;
  // Copies that may be moved.
  std::vector<std::vector<double>> tables;
  for (ProgramTable& table : attention.score->tables) {
    auto* real = std::get_if<View<const double, 4>>(&table);
    if (!real) continue;
    tables.emplace_back(static_cast<std::size_t>(real->size()));
    std::copy_n(real->data, real->size(), tables.back().data());
    *real = View<const double, 4>::Contiguous(tables.back().data(), real->extent);
  }
  Loss loss(c.shape, attention);
  loss.Differentiate();
  const auto compare = [&](const char* name, std::vector<double>& numbers, const double* gradient) {
    const std::vector<double> found(gradient, gradient + numbers.size());
    for (std::size_t x = 0; x < numbers.size(); ++x) {
      const double slope = loss.Slope(numbers[x]);
      EXPECT_NEAR(found[x], slope, 1e-6 * (1 + std::abs(slope))) << c.name << ", " << name << " " << x;
    }
  };
  Problem<double>& problem = loss.problem();
  compare("q", problem.q, problem.d_q.data());
  compare("k", problem.k, problem.d_k.data());
  compare("v", problem.v, problem.d_v.data());
  const double* gradient = problem.d_bias.data();
  for (std::vector<double>& table : tables) {
    compare("table", table, gradient);
    gradient += table.size();
  }
}

TEST(ScoreGradients, AreSlopes) {
  for (int number = 0; number < reference::ScorePrograms(); ++number) {
    reference::Case c;
    c.name = "score program " + std::to_string(number);
    c.shape = {2, 2, 1, 4, 5, 3, 2};
    c.score_program = number;
    CompareWithSlopes(c);
  }
}

TEST(ScoreGradients, OfRandomProgramsAreSlopes) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    reference::Case c;
    c.name = "random score program " + std::to_string(seed);
    c.shape = {1, 2, 2, 4, 5, 3, 2};
    c.score_program = reference::ScorePrograms();
    c.program_seed = seed;
    if (seed % 3 == 0) c.softcap = 2.0;
    if (seed % 4 == 0) c.causal = Causal::kBottomRight;
    CompareWithSlopes(c);
  }
}

}  // namespace
}  // namespace heed
