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

class Neighbours {
 public:
  Neighbours(const Examples& training, int64_t classes)
      : X_(training.X), y_(training.y), squares_(training.X.square().sum(1)), classes_(classes) {
    if (classes_ == 0) return;
    // One more than counted: a class that was never seen may come all the same.
    const at::Tensor counts = at::bincount(y_, {}, classes_).to(at::kDouble) + 1;
    shares_ = counts / counts.sum();
  }

  int64_t most() const { return std::min(kMostNeighbours, X_.size(0)); }

  // Indices of the `most` nearest of each, the nearest first: [rows, most].
  at::Tensor Nearest(const at::Tensor& some, int64_t most) const {
    std::vector<at::Tensor> found;
    for (const at::Tensor& rows : some.split(kQueriesAtOnce)) {
      if (Interrupted()) throw Interruption("interrupted while neighbours were looked for");
      // The square of the rows themselves moves no distance past another.
      found.push_back(std::get<1>(at::addmm(squares_, rows, X_.t(), 1, -2).topk(most, 1, /*largest=*/false)));
    }
    return at::cat(found);
  }

  // nearest: [rows, k or more].
  at::Tensor Answer(const at::Tensor& nearest, int64_t k) const {
    const at::Tensor kept = nearest.narrow(1, 0, k);
    if (classes_ == 0) {
      at::Tensor sum = at::zeros({kept.size(0), y_.size(1)}, at::kDouble);
      for (int64_t i = 0; i < k; ++i) sum += y_.index_select(0, kept.select(1, i));
      return sum / static_cast<double>(k);
    }
    const at::Tensor answers = y_.index_select(0, kept.flatten()).view(kept.sizes());
    at::Tensor counts = at::zeros({kept.size(0), classes_}, at::kDouble);
    counts.scatter_add_(1, answers, at::ones(answers.sizes(), at::kDouble));
    return ((counts + shares_) / static_cast<double>(k + 1)).log();
  }

 private:
  at::Tensor X_, y_, squares_, shares_;
  int64_t classes_;
};

}  // namespace

Method NeighbourAnswers(const std::map<std::string, at::Tensor>& arrays, int64_t neighbours, int64_t classes) {
  return [all = Neighbours({arrays.at("X"), arrays.at("y")}, classes), neighbours](const at::Tensor& X) {
    return all.Answer(all.Nearest(X, neighbours), neighbours);
  };
}

FittedMethod FitNeighbours(const Examples& training, const Examples& validation, int64_t classes) {
  const Neighbours neighbours(training, classes);
  const at::Tensor nearest = neighbours.Nearest(validation.X, neighbours.most());
  double least = std::numeric_limits<double>::infinity();
  int64_t best = 1;
  for (int64_t k = 1; k <= neighbours.most(); k *= 2) {
    const double loss = MeanLoss(neighbours.Answer(nearest, k), validation.y);
    if (loss < least) least = loss, best = k;
  }
  KeptMethod kept{"neighbours", {{"neighbours", best}}, {{"X", training.X}, {"y", training.y}}};
  Method answers = NeighbourAnswers(kept.arrays, best, classes);
  return {best == 1 ? "1 neighbour" : fmt::format("{} neighbours", best), std::move(answers), std::move(kept)};
}

}  // namespace heed::lab
