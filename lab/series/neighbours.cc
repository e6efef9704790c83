#include "lab/series/neighbours.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/core.h>

#include "lab/training/interrupt.h"

namespace heed::lab {
namespace {

constexpr int64_t kMostNeighbours = 128;
constexpr int64_t kQueriesAtOnce = 512;  // which bounds the table of distances
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

  // For each count k of neighbours what the k nearest of each row say, and all that are as far as the last of them: [rows,
  // outputs].
  std::vector<at::Tensor> Answers(const at::Tensor& some, const std::vector<int64_t>& counts) const {
    std::vector<std::vector<at::Tensor>> found(counts.size());
    for (const at::Tensor& rows : some.split(kQueriesAtOnce)) {
      if (Interrupted()) throw Interruption("interrupted while neighbours were looked for");
      // The square of the rows themselves moves no distance past another.
      const at::Tensor distances = at::addmm(squares_, rows, X_.t(), 1, -2);
      const at::Tensor nearest = std::get<0>(distances.topk(std::ranges::max(counts), 1, /*largest=*/false));
      const at::Tensor rounding = kRounding * (squares_ + rows.square().sum(1, /*keepdim=*/true));
      for (std::size_t i = 0; i < counts.size(); ++i)
        found[i].push_back(Answer((distances - rounding).le(nearest.narrow(1, counts[i] - 1, 1)).to(at::kDouble)));
    }
    std::vector<at::Tensor> answers;
    answers.reserve(found.size());
    for (const std::vector<at::Tensor>& parts : found) answers.push_back(at::cat(parts));
    return answers;
  }

 private:
  // near: [rows, examples], 1 for those that count.
  at::Tensor Answer(const at::Tensor& near) const {
    const at::Tensor count = near.sum(1, /*keepdim=*/true);
    return classes_ == 0 ? near.mm(told_) / count : ((near.mm(told_) + shares_) / (count + 1)).log();
  }

  at::Tensor X_, squares_, told_, shares_;
  int64_t classes_;
};

}  // namespace

Method NeighbourAnswers(const std::map<std::string, at::Tensor>& arrays, int64_t neighbours, int64_t classes) {
  return [all = Neighbours({arrays.at("X"), arrays.at("y")}, classes), neighbours](const at::Tensor& X) {
    return all.Answers(X, {neighbours}).front();
  };
}

FittedMethod FitNeighbours(const Examples& training, const Examples& validation, int64_t classes) {
  const Neighbours neighbours(training, classes);
  std::vector<int64_t> counts;
  for (int64_t k = 1; k <= neighbours.most(); k *= 2) counts.push_back(k);
  const std::vector<at::Tensor> answers_of = neighbours.Answers(validation.X, counts);
  double least = std::numeric_limits<double>::infinity();
  int64_t best = 1;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double loss = MeanLoss(answers_of[i], validation.y);
    if (loss < least) least = loss, best = counts[i];
  }
  KeptMethod kept{"neighbours", {{"neighbours", best}}, {{"X", training.X}, {"y", training.y}}};
  Method answers = NeighbourAnswers(kept.arrays, best, classes);
  return {best == 1 ? "1 neighbour" : fmt::format("{} neighbours", best), std::move(answers), std::move(kept)};
}

}  // namespace heed::lab
