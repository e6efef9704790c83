#include "lab/series/examples.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/core.h>
#include <torch/optim/lbfgs.h>

#include "lab/runs/contender.h"
#include "lab/training/interrupt.h"

namespace heed::lab {
namespace {

constexpr int64_t kRowsAtOnce = 4096;  // of a table that is only looked through

constexpr double kRidgeStrengths[] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1, 10};
// Falling: each starts where the one before ended.
constexpr double kLogisticStrengths[] = {1, 3e-1, 1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4};

using Arrays = std::map<std::string, at::Tensor>;

// "mean" and "factor" of the cells. Those that never change say nothing and are 0.
Arrays ScaleOf(const at::Tensor& X) {
  const at::Tensor mean = X.mean(0), deviation = (X - mean).square().mean(0).sqrt(), change = deviation > 1e-12;
  return {{"mean", mean}, {"factor", at::where(change, 1 / deviation.masked_fill(~change, 1.0), at::zeros_like(deviation))}};
}
at::Tensor Scaled(const Arrays& scale, const at::Tensor& X) { return (X - scale.at("mean")) * scale.at("factor"); }

at::Tensor Answers(const at::Tensor& X, const at::Tensor& W, const at::Tensor& b, bool classes) {
  const at::Tensor answers = at::addmm(b, X, W);
  return classes ? at::log_softmax(answers, 1) : answers;
}

// W [cells, outputs] and b [outputs], fitted with a penalty of this strength.
struct Linear {
  double strength;
  at::Tensor W, b;
};

constexpr int64_t kMostNeighbours = 128;
constexpr double kPriors[] = {1, 0.3, 0.1, 0.03};  // in neighbours: how much the shares of all examples weigh
constexpr int64_t kQueriesAtOnce = 512;            // which bounds the table of distances
// Distances that differ by less, as a share of the squares that they are made of, are equal: they were rounded in some order.
constexpr double kDistanceRounding = 1e-12;

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
      const at::Tensor rounding = kDistanceRounding * (squares_ + rows.square().sum(1, /*keepdim=*/true));
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

double MeanLoss(const at::Tensor& answers, const at::Tensor& y) {
  if (y.dim() == 1) return -answers.gather(1, y.unsqueeze(1)).mean().item<double>();
  return (answers - y).square().mean().item<double>();
}

bool LengthsDiffer(const SeriesBatches& batches) {
  const auto steps = [&](const SeriesSequence& sequence) { return std::min(sequence.steps, batches.form().steps()); };
  return std::ranges::any_of(batches.data().sequences,
                             [&](const SeriesSequence& s) { return steps(s) != batches.form().steps(); });
}

SeriesRows::SeriesRows(const SeriesForm& form, RowOf row_of, bool lengths_differ)
    : cells_({form.Forecasts(), form.each_step, form.width(), std::ssize(form.features), form.steps()}, row_of, lengths_differ),
      pooled_(!form.each_step),
      width_(form.width()),
      outputs_(form.outputs()) {}

std::vector<std::string> SeriesRows::Limits() const {
  std::vector<std::string> limits;
  if (cells_.pieces() < cells_.span()) limits.push_back(fmt::format("{} steps averaged to {}", cells_.span(), cells_.pieces()));
  if (cells_.columns() < width_) limits.push_back(fmt::format("{} of {} columns", cells_.columns(), width_));
  return limits;
}

SeriesExamples::SeriesExamples(const SeriesBatches& batches, RowOf row_of)
    : batches_(batches), rows_(batches.form(), row_of, LengthsDiffer(batches)) {}

Examples SeriesExamples::Training(int64_t most) const {
  const bool one_each = batches_.form().Forecasts() || batches_.pooled();
  return Thinned(batches_.TrainingWindows(one_each ? most : batches_.training_count()), most);
}

Examples SeriesExamples::Validation(int64_t most) const { return Thinned(batches_.validation_windows(), most); }

std::string SeriesExamples::Limits(int64_t most) const {
  const int64_t rows = batches_.form().Answers(batches_.TrainingWindows(batches_.training_count()));
  std::vector<std::string> limits;
  if (rows > most) limits.push_back(fmt::format("fitted on {} of {} examples", most, rows));
  std::ranges::move(rows_.Limits(), std::back_inserter(limits));
  return Join(limits);
}

Examples SeriesExamples::Thinned(const std::vector<SeriesWindow>& windows, int64_t most) const {
  const int64_t rows = batches_.form().Answers(windows), kept = std::min(rows, most);
  std::vector<at::Tensor> X, y;
  int64_t taken = 0, seen = 0;
  batches_.ForEach(windows, [&](const SeriesBatch& batch) {
    if (Interrupted()) throw Interruption("interrupted while simple methods were fitted");
    const int64_t end = seen + std::ssize(batch.scored);
    std::vector<int64_t> chosen;
    for (; taken < kept && taken * rows / kept < end; ++taken) chosen.push_back(taken * rows / kept - seen);
    seen = end;
    if (chosen.empty()) return;
    const Examples examples = rows_.Of(batch, chosen);
    X.push_back(examples.X);
    y.push_back(examples.y);
  });
  return {at::cat(X), at::cat(y)};
}

void SeriesExamples::ForEach(const std::vector<SeriesWindow>& windows,
                             const std::function<void(const Examples&)>& visit) const {
  batches_.ForEach(windows, [&](const SeriesBatch& batch) { ForEachRow(rows_, batch, visit); });
}

void ForEachRow(const SeriesRows& rows, const SeriesBatch& batch, const std::function<void(const Examples&)>& visit) {
  const int64_t scored = std::ssize(batch.scored);
  for (int64_t first = 0; first < scored; first += kRowsAtOnce) {
    if (Interrupted()) throw Interruption("interrupted while simple methods were measured");
    std::vector<int64_t> chosen(std::min(scored - first, kRowsAtOnce));
    std::iota(chosen.begin(), chosen.end(), first);
    visit(rows.Of(batch, chosen));
  }
}

Examples SeriesRows::Of(const SeriesBatch& batch, const std::vector<int64_t>& chosen) const {
  const bool classes = !batch.classes.empty(), values = !batch.values.empty();
  const int64_t rows = std::ssize(chosen), answers = classes || values ? rows : 0;
  Examples examples{at::zeros({rows, cells()}, at::kDouble),
                    classes ? at::empty({answers}, at::kLong) : at::empty({answers, outputs_}, at::kDouble)};
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t scored = chosen[i], place = batch.scored[scored];
    const int64_t row = pooled_ ? place : place / batch.steps;
    cells_.Fill(&batch.features[row * batch.steps * width_], batch.lengths[row], pooled_ ? 0 : place % batch.steps,
                examples.X.mutable_data_ptr<double>() + i * cells());
    if (classes) examples.y.mutable_data_ptr<int64_t>()[i] = batch.classes[scored];
    if (!values) continue;
    const auto first = batch.values.begin() + scored * outputs_;
    std::copy(first, first + outputs_, examples.y.mutable_data_ptr<double>() + i * outputs_);
  }
  return examples;
}

Method RowMethod(const KeptMethod& kept, int64_t classes) {
  const Arrays& arrays = kept.arrays;
  if (kept.kind == "linear")
    return [arrays, classes](const at::Tensor& X) {
      return Answers(Scaled(arrays, X), arrays.at("W"), arrays.at("b"), classes > 0);
    };
  return [all = Neighbours({arrays.at("X"), arrays.at("y")}, classes),
          neighbours = kept.settings.at("neighbours").get<int64_t>(), prior = kept.settings.value("prior", 1.0)](
             const at::Tensor& X) { return all.Answer(all.Find(X, {neighbours}).front(), prior); };
}

namespace {

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

// Of these strengths that with the least loss on the validation examples.
FittedMethod FitStrengths(const Examples& training, const Examples& validation, int64_t classes,
                          std::span<const double> strengths) {
  KeptMethod kept{.kind = "linear", .arrays = ScaleOf(training.X)};
  const std::vector<Linear> fitted =
      (classes > 0 ? LogisticOf : RidgeOf)(Scaled(kept.arrays, training.X), training.y, classes, strengths);
  const Linear* best = &fitted.front();
  if (fitted.size() > 1) {
    const at::Tensor seen = Scaled(kept.arrays, validation.X);
    double least = std::numeric_limits<double>::infinity();
    for (const Linear& one : fitted) {
      const double loss = MeanLoss(Answers(seen, one.W, one.b, classes > 0), validation.y);
      if (loss < least) least = loss, best = &one;
    }
  }
  kept.arrays.insert({{"W", best->W}, {"b", best->b}});
  Method answer = RowMethod(kept, classes);
  return {fmt::format("strength {:g}", best->strength), std::move(answer), std::move(kept),
          [classes, strength = best->strength](const Examples& examples) {
            return FitStrengths(examples, examples, classes, {&strength, 1});
          }};
}

FittedMethod Fitted(const Examples& training, int64_t neighbours, double prior, int64_t classes) {
  KeptMethod kept{"neighbours", {{"neighbours", neighbours}}, {{"X", training.X}, {"y", training.y}}};
  std::string setting = neighbours == 1 ? "1 neighbour" : fmt::format("{} neighbours", neighbours);
  if (classes > 0) kept.settings["prior"] = prior, setting += fmt::format(" and {:g} for the shares", prior);
  Method answer = RowMethod(kept, classes);
  return {std::move(setting), std::move(answer), std::move(kept),
          [=](const Examples& examples) { return Fitted(examples, neighbours, prior, classes); }};
}

}  // namespace

FittedMethod FitLinear(const Examples& training, const Examples& validation, int64_t classes) {
  return FitStrengths(training, validation, classes,
                      classes > 0 ? std::span<const double>(kLogisticStrengths) : std::span<const double>(kRidgeStrengths));
}

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
