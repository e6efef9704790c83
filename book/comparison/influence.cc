#include "book/comparison/comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/autograd/autograd.h>

#include "heed/nn/encoders.h"
#include "lab/training/side_by_side.h"

namespace heed::lab {
namespace {

// Parameters are drawn from PyTorch's default generator; afterwards it goes on as if nothing had been drawn.
std::shared_ptr<nn::SequenceEncoder> SeededEncoder(const std::string& name, const InfluenceOptions& options) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const at::Tensor state = generator.get_state();
  generator.set_current_seed(options.seed);
  auto encoder = nn::MakeEncoder(
      name, nn::EncoderOptions(options.width).layers(options.layers).causal(true).kernel(options.kernel).heads(options.heads));
  generator.set_state(state);
  encoder->to(at::kDouble);
  encoder->eval();
  return encoder;
}

// Largest first, so that squares of tiny numbers do not vanish.
double Norm(const at::Tensor& values) {
  const double largest = values.abs().max().item<double>();
  return largest == 0 ? 0 : largest * (values / largest).norm().item<double>();
}

}  // namespace

InfluenceCurve MeasureInfluence(const std::string& encoder_name, const InfluenceOptions& options) {
  const ThreadCount one(1);  // small products step by step: faster so, and the same bits whatever the number of threads
  const auto encoder = SeededEncoder(encoder_name, options);
  // Every batch row holds the same input and answers for one output channel, so one backward pass gives all of them.
  const int64_t channels = std::min<int64_t>(options.width, 16), last = options.length - 1;
  at::Generator generator = at::detail::createCPUGenerator(options.seed);
  const at::Tensor x = at::randn({1, options.length, options.width}, generator, at::kDouble);
  const at::Tensor X = x.repeat({channels, 1, 1}).requires_grad_();
  const at::Tensor asked = encoder->forward(X).select(1, last).diagonal().sum();
  const at::Tensor gradient = torch::autograd::grad({asked}, {X}).front();

  const double all = std::sqrt(static_cast<double>(options.width) / static_cast<double>(channels));
  InfluenceCurve curve{encoder_name, {}};
  for (int64_t distance = 0; distance <= last; ++distance) {
    const double norm = all * Norm(gradient.select(1, last - distance));
    curve.log10.push_back(norm < std::numeric_limits<double>::min() ? -INFINITY : std::log10(norm));
  }
  return curve;
}

std::vector<InfluenceCurve> MeasureInfluences(const InfluenceOptions& options) {
  std::vector<InfluenceCurve> curves;
  for (const std::string& encoder : nn::EncoderNames()) curves.push_back(MeasureInfluence(encoder, options));
  return curves;
}

}  // namespace heed::lab
