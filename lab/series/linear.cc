#include "lab/series/linear.h"

#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/core.h>
#include <torch/optim/lbfgs.h>

#include "lab/training/interrupt.h"

namespace heed::lab {
namespace {

constexpr double kRidgeStrengths[] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1, 10};
// Falling: each starts where the one before ended.
constexpr double kLogisticStrengths[] = {1, 3e-1, 1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4};

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

// W [cells, outputs] and b [outputs], fitted with a penalty of this strength.
struct Linear {
  double strength;
  at::Tensor W, b;
};

}  // namespace

Method LinearAnswers(const std::map<std::string, at::Tensor>& arrays, bool classes) {
  const CellScale scale(arrays.at("mean"), arrays.at("factor"));
  return [scale, W = arrays.at("W"), b = arrays.at("b"), classes](const at::Tensor& X) {
    const at::Tensor answers = at::addmm(b, scale(X), W);
    return classes ? at::log_softmax(answers, 1) : answers;
  };
}

namespace {

using Fit = std::vector<Linear> (*)(const at::Tensor& X, const at::Tensor& y, int64_t classes,
                                    std::span<const double> strengths);

// Of each strength, in order; NaN where numbers are too large for the equations to have an answer. X: scaled.
std::vector<Linear> RidgeOf(const at::Tensor& X, const at::Tensor& y, int64_t, std::span<const double> strengths) {
  const at::Tensor b = y.mean(0);
  const double rows = static_cast<double>(X.size(0));
  const at::Tensor squares = X.t().mm(X) / rows, products = X.t().mm(y - b) / rows;
  const at::Tensor identity = at::eye(X.size(1), at::kDouble);
  std::vector<Linear> fitted;
  for (const double strength : strengths) {
    if (Interrupted()) throw Interruption("interrupted while a regression was fitted");
    const auto [root, fault] = at::linalg_cholesky_ex(squares + strength * identity);
    const bool solved = fault.item<int>() == 0;
    fitted.push_back({strength, solved ? at::cholesky_solve(products, root) : at::full_like(products, NAN), b});
  }
  return fitted;
}

std::vector<Linear> LogisticOf(const at::Tensor& X, const at::Tensor& y, int64_t classes, std::span<const double> strengths) {
  const at::AutoGradMode grad(true);
  at::Tensor W = at::zeros({X.size(1), classes}, at::kDouble).requires_grad_();
  at::Tensor b = at::zeros({classes}, at::kDouble).requires_grad_();
  std::vector<Linear> fitted;
  for (const double strength : strengths) {
    torch::optim::LBFGS search(
        {W, b},
        torch::optim::LBFGSOptions().max_iter(100).tolerance_grad(1e-5).tolerance_change(1e-9).history_size(10).line_search_fn(
            "strong_wolfe"));
    search.step([&] {
      if (Interrupted()) throw Interruption("interrupted while a regression was fitted");
      search.zero_grad();
      at::Tensor loss = at::cross_entropy_loss(at::addmm(b, X, W), y) + strength / 2 * W.square().sum();
      loss.backward();
      return loss;
    });
    fitted.push_back({strength, W.detach().clone(), b.detach().clone()});
  }
  return fitted;
}

FittedMethod Fitted(const CellScale& scale, const Linear& linear, Fit fit, int64_t classes) {
  KeptMethod kept{.kind = "linear",
                  .arrays = {{"mean", scale.mean()}, {"factor", scale.factor()}, {"W", linear.W}, {"b", linear.b}}};
  Method answer = LinearAnswers(kept.arrays, classes > 0);
  return {fmt::format("strength {:g}", linear.strength), std::move(answer), std::move(kept),
          [fit, classes, strength = linear.strength](const Examples& examples) {
            const CellScale its(examples.X);
            return Fitted(its, fit(its(examples.X), examples.y, classes, {&strength, 1}).front(), fit, classes);
          }};
}

FittedMethod Choose(const Examples& training, const Examples& validation, Fit fit, int64_t classes,
                    std::span<const double> strengths) {
  const CellScale scale(training.X);
  const std::vector<Linear> fitted = fit(scale(training.X), training.y, classes, strengths);
  const at::Tensor seen = scale(validation.X);
  const Linear* best = &fitted.front();
  double least = std::numeric_limits<double>::infinity();
  for (const Linear& one : fitted) {
    const at::Tensor told = at::addmm(one.b, seen, one.W);
    const double loss = MeanLoss(classes > 0 ? at::log_softmax(told, 1) : told, validation.y);
    if (loss < least) least = loss, best = &one;
  }
  return Fitted(scale, *best, fit, classes);
}

}  // namespace

FittedMethod FitRidge(const Examples& training, const Examples& validation) {
  return Choose(training, validation, RidgeOf, /*classes=*/0, kRidgeStrengths);
}

FittedMethod FitLogistic(const Examples& training, const Examples& validation, int64_t classes) {
  return Choose(training, validation, LogisticOf, classes, kLogisticStrengths);
}

}  // namespace heed::lab
