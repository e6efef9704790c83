// Forecasts a signal that was measured at irregular times: timestamps are the positions, real numbers in hours.
//
// The signal is a sum of a daily and a faster wave, each series with phases of its own. A model that knows when each value was
// measured can tell the phases; one that knows the order of the values alone cannot. Both are trained here, beside the forecast
// that takes the last value.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>

#include <ATen/ATen.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/optim/adam.h>

#include "heed/nn/multi_head_attention.h"

namespace {

constexpr int64_t kWidth = 32, kHeads = 2;
constexpr int64_t kMeasured = 32, kAsked = 8;  // values seen, values to forecast
constexpr int64_t kSteps = 150, kBatch = 32;

at::Tensor Wave(const at::Tensor& hours, const at::Tensor& phases) {
  const double turn = 2 * M_PI;
  return at::sin(turn / 24 * hours + phases.slice(1, 0, 1)) + 0.5 * at::sin(turn / 9 * hours + phases.slice(1, 1, 2));
}

struct Series {
  at::Tensor values, times;  // [batch, kMeasured]
  at::Tensor future, asked;  // what follows and when, [batch, kAsked]
};

Series Sample(int64_t batch) {
  // float64 as the times of a data base: seconds since 1970 would not fit a float32.
  const at::Tensor times = at::empty({batch, kMeasured}, at::kDouble).exponential_(1 / 1.5).cumsum(1);
  const at::Tensor asked = times.slice(1, -1) + 12 * at::rand({batch, kAsked}, at::kDouble);
  const at::Tensor phases = 2 * M_PI * at::rand({batch, 2}, at::kDouble);
  const at::Tensor noise = 0.05 * at::randn({batch, kMeasured}, at::kDouble);
  return {(Wave(times, phases) + noise).to(at::kFloat), times, Wave(asked, phases).to(at::kFloat), asked};
}

// The times of somebody who ignores the timestamps: 0, 1, 2, ...
Series InOrder(Series series) {
  const at::Tensor order = at::arange(kMeasured + kAsked, at::kDouble);
  series.times = order.slice(0, 0, kMeasured);
  series.asked = order.slice(0, kMeasured);
  return series;
}

heed::nn::MultiHeadAttention TimedAttention() {
  // Rotary turns queries and keys by position: base 100 lets pairs of columns turn once in 6 to 350 hours.
  const heed::nn::Rotary rotary(kWidth / kHeads, heed::RotaryOptions{.base = 100.0});
  return heed::nn::MultiHeadAttention(heed::nn::MultiHeadAttentionOptions(kWidth, kHeads).bias(true).position(rotary));
}

// The measured values attend to each other, then the times in question attend to them.
struct Forecaster : torch::nn::Module {
  Forecaster() {
    register_module("embed", embed), register_module("mix", mix), register_module("ask", ask);
    register_module("norm1", norm1), register_module("norm2", norm2);
    register_module("dense1", dense1), register_module("dense2", dense2);
    question = register_parameter("question", at::zeros({1, 1, kWidth}));
  }

  at::Tensor forward(const Series& series) {
    at::Tensor X = embed(series.values.unsqueeze(2));
    const at::Tensor Y = norm1(X);
    X = norm2(X + mix->forward(Y, Y, Y, {}, nullptr, {.queries = series.times, .keys = series.times}));
    // The same question for every time: its position tells which.
    const at::Tensor questions = question.expand({X.size(0), kAsked, kWidth});
    const at::Tensor Z = ask->forward(questions, X, X, {}, nullptr, {.queries = series.asked, .keys = series.times});
    return dense2(at::gelu(dense1(Z))).squeeze(2);
  }

  torch::nn::Linear embed{1, kWidth}, dense1{kWidth, 64}, dense2{64, 1};
  heed::nn::MultiHeadAttention mix = TimedAttention(), ask = TimedAttention();
  torch::nn::LayerNorm norm1{torch::nn::LayerNormOptions({kWidth})}, norm2{torch::nn::LayerNormOptions({kWidth})};
  at::Tensor question;
};

double RootMeanSquare(const at::Tensor& error) { return error.square().mean().sqrt().item<double>(); }

using View = Series (*)(Series);  // which times a model is told

std::shared_ptr<Forecaster> Train(View view) {
  at::manual_seed(1);
  auto model = std::make_shared<Forecaster>();
  torch::optim::Adam optimizer(model->parameters());
  for (int64_t step = 0; step < kSteps; ++step) {
    optimizer.param_groups()[0].options().set_lr(5e-3 * (1 - static_cast<double>(step) / kSteps));
    const Series series = view(Sample(kBatch));
    optimizer.zero_grad();
    (model->forward(series) - series.future).square().mean().backward();
    optimizer.step();
  }
  return model;
}

}  // namespace

int main() {
  const View by_timestamp = [](Series series) { return series; }, by_order = InOrder;
  const auto timed = Train(by_timestamp), ordered = Train(by_order);
  const at::NoGradGuard no_grad;
  at::manual_seed(2);  // series that nobody was trained on
  const Series series = Sample(512);
  const at::Tensor forecast = timed->forward(series);
  const double last_value = RootMeanSquare(series.values.slice(1, -1) - series.future);
  const double of_order = RootMeanSquare(ordered->forward(by_order(series)) - series.future);
  const double of_time = RootMeanSquare(forecast - series.future);
  std::printf("error (root mean square; the signal's own size is %.2f)\n", RootMeanSquare(series.future));
  std::printf("  last value    %.3f\n  by order      %.3f\n  by timestamp  %.3f\n", last_value, of_order, of_time);
  std::printf("one series, hours after the last value: forecast, truth\n");
  for (int64_t i = 0; i < kAsked; ++i) {
    std::printf("  %5.2f h  %6.2f  %6.2f\n", (series.asked[0][i] - series.times[0][-1]).item<double>(),
                forecast[0][i].item<double>(), series.future[0][i].item<double>());
  }
  std::printf("timestamps halve the error: %s\n", of_time < 0.5 * of_order ? "yes" : "no");
  std::printf("better than the last value: %s\n", of_time < 0.4 * last_value ? "yes" : "no");
  return 0;
}
