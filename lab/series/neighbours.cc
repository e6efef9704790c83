#include "lab/series/neighbours.h"

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/core.h>

#include "lab/training/interrupt.h"

namespace heed::lab {
namespace {

constexpr int64_t kMostNeighbours = 128;
constexpr double kPriors[] = {1, 0.3, 0.1, 0.03};  // in neighbours: how much the shares of all examples weigh
constexpr int64_t kQueriesAtOnce = 512;            // which bounds the table of distances
// Distances that differ by less, as a share of the squares that they are made of, are equal: they were rounded in some order.
constexpr double kRounding = 1e-12;

class Neighbours {
 public:
  Neighbours(const Examples& training, int64_t classes)
      : X_(training.X), squares_(training.X.square().sum(1)), told_(training.y), classes_(classes) {
    if (classes_ == 0) return;
    told_ = at::one_hot(training.y, classes_).to(at::kDouble);
    // One more than counted: a class that was never seen may come all the same.
    const at::Tensor counts = told_.sum(0) + 1;
    shares_ = counts / counts.sum();
  }

  int64_t most() const { return std::min(kMostNeighbours, X_.size(0)); }

  // For each count k of neighbours the k nearest of each row, and all that are as far as the last of them: how many these are
  // [rows, 1], and the sum of what they say [rows, outputs].
  struct Nearest {
    at::Tensor count, told;
  };
  std::vector<Nearest> Find(const at::Tensor& some, const std::vector<int64_t>& counts) const {
    std::vector<std::vector<at::Tensor>> near(counts.size()), told(counts.size());
    for (const at::Tensor& rows : some.split(kQueriesAtOnce)) {
      if (Interrupted()) throw Interruption("interrupted while neighbours were looked for");
      // The square of the rows themselves moves no distance past another.
      const at::Tensor distances = at::addmm(squares_, rows, X_.t(), 1, -2);
      const at::Tensor nearest = std::get<0>(distances.topk(std::ranges::max(counts), 1, /*largest=*/false));
      const at::Tensor rounding = kRounding * (squares_ + rows.square().sum(1, /*keepdim=*/true));
      for (std::size_t i = 0; i < counts.size(); ++i) {
        const at::Tensor chosen = (distances - rounding).le(nearest.narrow(1, counts[i] - 1, 1)).to(at::kDouble);
        near[i].push_back(chosen.sum(1, /*keepdim=*/true)), told[i].push_back(chosen.mm(told_));
      }
    }
    std::vector<Nearest> found;
    for (std::size_t i = 0; i < counts.size(); ++i) found.push_back({at::cat(near[i]), at::cat(told[i])});
    return found;
  }

  at::Tensor Answer(const Nearest& nearest, double prior) const {
    if (classes_ == 0) return nearest.told / nearest.count;
    return ((nearest.told + prior * shares_) / (nearest.count + prior)).log();
  }

 private:
  at::Tensor X_, squares_, told_, shares_;
  int64_t classes_;
};

}  // namespace

Method NeighbourAnswers(const std::map<std::string, at::Tensor>& arrays, int64_t neighbours, double prior, int64_t classes) {
  return [all = Neighbours({arrays.at("X"), arrays.at("y")}, classes), neighbours, prior](const at::Tensor& X) {
    return all.Answer(all.Find(X, {neighbours}).front(), prior);
  };
}

namespace {

FittedMethod Fitted(const Examples& training, int64_t neighbours, double prior, int64_t classes) {
  KeptMethod kept{"neighbours", {{"neighbours", neighbours}}, {{"X", training.X}, {"y", training.y}}};
  std::string setting = neighbours == 1 ? "1 neighbour" : fmt::format("{} neighbours", neighbours);
  if (classes > 0) kept.settings["prior"] = prior, setting += fmt::format(" and {:g} for the shares", prior);
  Method answer = NeighbourAnswers(kept.arrays, neighbours, prior, classes);
  return {std::move(setting), std::move(answer), std::move(kept),
          [=](const Examples& examples) { return Fitted(examples, neighbours, prior, classes); }};
}

}  // namespace

FittedMethod FitNeighbours(const Examples& training, const Examples& validation, int64_t classes) {
  const Neighbours all(training, classes);
  std::vector<int64_t> counts;
  for (int64_t k = 1; k <= all.most(); k *= 2) counts.push_back(k);
  const std::vector<Neighbours::Nearest> nearest = all.Find(validation.X, counts);
  double least = std::numeric_limits<double>::infinity(), best_prior = 1;
  int64_t best = 1;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    for (const double prior : classes > 0 ? std::span<const double>(kPriors) : std::span<const double>(kPriors, 1)) {
      const double loss = MeanLoss(all.Answer(nearest[i], prior), validation.y);
      if (loss < least) least = loss, best = counts[i], best_prior = prior;
    }
  }
  return Fitted(training, best, best_prior, classes);
}

}  // namespace heed::lab
