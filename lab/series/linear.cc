#include "lab/series/linear.h"

#include <limits>
#include <tuple>
#include <utility>

#include <ATen/ATen.h>
#include <fmt/core.h>
#include <torch/optim/lbfgs.h>

#include "lab/training/interrupt.h"

namespace heed::lab {
namespace {

constexpr double kRidgeStrengths[] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1, 10};
constexpr double kLogisticStrengths[] = {1, 1e-1, 1e-2, 1e-3, 1e-4};  // falling: each starts where the one before ended

// Cells that never change say nothing and are 0.
class CellScale {
 public:
  explicit CellScale(const at::Tensor& X) : mean_(X.mean(0)) {
    const at::Tensor deviation = (X - mean_).square().mean(0).sqrt(), change = deviation > 1e-12;
    factor_ = at::where(change, 1 / deviation.masked_fill(~change, 1.0), at::zeros_like(deviation));
  }
  CellScale(at::Tensor mean, at::Tensor factor) : mean_(std::move(mean)), factor_(std::move(factor)) {}

  at::Tensor operator()(const at::Tensor& X) const { return (X - mean_) * factor_; }
  const at::Tensor& mean() const { return mean_; }
  const at::Tensor& factor() const { return factor_; }

 private:
  at::Tensor mean_, factor_;
};

// The answers of W and b that fared best on the validation examples so far.
struct BestLinear {
  double loss = std::numeric_limits<double>::infinity(), strength = 0;
  at::Tensor W, b;  // [cells, outputs], [outputs]

  void Try(double tried, const at::Tensor& some_W, const at::Tensor& some_b, double its_loss) {
    if (W.defined() && !(its_loss < loss)) return;
    loss = its_loss, strength = tried, W = some_W.detach().clone(), b = some_b.detach().clone();
  }
  FittedMethod Fitted(const CellScale& scale, bool classes) const {
    KeptMethod kept{.kind = "linear", .arrays = {{"mean", scale.mean()}, {"factor", scale.factor()}, {"W", W}, {"b", b}}};
    Method answers = LinearAnswers(kept.arrays, classes);
    return {fmt::format("strength {:g}", strength), std::move(answers), std::move(kept)};
  }
};

}  // namespace

Method LinearAnswers(const std::map<std::string, at::Tensor>& arrays, bool classes) {
  const CellScale scale(arrays.at("mean"), arrays.at("factor"));
  return [scale, W = arrays.at("W"), b = arrays.at("b"), classes](const at::Tensor& X) {
    const at::Tensor answers = at::addmm(b, scale(X), W);
    return classes ? at::log_softmax(answers, 1) : answers;
  };
}

FittedMethod FitRidge(const Examples& training, const Examples& validation) {
  const CellScale scale(training.X);
  const at::Tensor X = scale(training.X), b = training.y.mean(0), seen = scale(validation.X);
  const double rows = static_cast<double>(training.rows());
  const at::Tensor squares = X.t().mm(X) / rows, products = X.t().mm(training.y - b) / rows;
  const at::Tensor identity = at::eye(training.cells(), at::kDouble);
  BestLinear best;
  for (const double strength : kRidgeStrengths) {
    if (Interrupted()) throw Interruption("interrupted while a regression was fitted");
    const auto [root, fault] = at::linalg_cholesky_ex(squares + strength * identity);
    if (fault.item<int>() != 0) continue;
    const at::Tensor W = at::cholesky_solve(products, root);
    best.Try(strength, W, b, MeanLoss(at::addmm(b, seen, W), validation.y));
  }
  return best.Fitted(scale, /*classes=*/false);
}

FittedMethod FitLogistic(const Examples& training, const Examples& validation, int64_t classes) {
  const CellScale scale(training.X);
  const at::Tensor X = scale(training.X), seen = scale(validation.X);
  at::Tensor W = at::zeros({training.cells(), classes}, at::kDouble).requires_grad_();
  at::Tensor b = at::zeros({classes}, at::kDouble).requires_grad_();
  BestLinear best;
  for (const double strength : kLogisticStrengths) {
    torch::optim::LBFGS search(
        {W, b},
        torch::optim::LBFGSOptions().max_iter(100).tolerance_grad(1e-5).tolerance_change(1e-7).history_size(10).line_search_fn(
            "strong_wolfe"));
    search.step([&] {
      if (Interrupted()) throw Interruption("interrupted while a regression was fitted");
      search.zero_grad();
      at::Tensor loss = at::cross_entropy_loss(at::addmm(b, X, W), training.y) + strength / 2 * W.square().sum();
      loss.backward();
      return loss;
    });
    const at::NoGradGuard no_grad;
    best.Try(strength, W, b, MeanLoss(at::log_softmax(at::addmm(b, seen, W), 1), validation.y));
  }
  return best.Fitted(scale, /*classes=*/true);
}

}  // namespace heed::lab
