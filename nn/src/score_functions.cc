#include "heed/nn/score_functions.h"

#include <cmath>
#include <optional>

#include <ATen/ATen.h>

#include "heed/scheme_formulas.h"
#include "refuse.h"
#include "sizes.h"

namespace heed::nn {
namespace {

int64_t CheckedHeads(const char* scheme, int64_t heads) {
  CheckSize(scheme, "heads", heads);
  return heads;
}

// From kKerpleLeast on, with the gradient of what they count as: a number beyond the limits can come back.
at::Tensor Limited(const at::Tensor& numbers, std::optional<double> most) {
  const std::optional<at::Scalar> highest = most ? std::optional<at::Scalar>(*most) : std::nullopt;
  return numbers + (numbers.clamp(kKerpleLeast, highest) - numbers).detach();
}

at::Tensor Uniform(at::IntArrayRef shape, double low, double high) { return at::empty(shape).uniform_(low, high); }

}  // namespace

KerpleImpl::KerpleImpl(int64_t heads, KerpleKind kind) : heads_(CheckedHeads("Kerple", heads)), kind_(kind) { reset(); }

void KerpleImpl::reset() {
  rate = register_parameter("rate", Uniform({heads_}, 0, 2));
  scale = register_parameter("scale", Uniform({heads_}, 0, 1));
}

std::optional<PositionProgram> KerpleImpl::program() const {
  static const ScoreProgram log = KerpleProgram(heed::KerpleKind::kLog), power = KerpleProgram(heed::KerpleKind::kPower);
  const bool is_log = kind_ == KerpleKind::kLog;
  const at::Tensor limited = Limited(rate, is_log ? std::nullopt : std::optional(kKerpleMostPower));
  return PositionProgram{is_log ? log : power, {limited, Limited(scale, std::nullopt)}, heads_};
}

SandwichImpl::SandwichImpl(int64_t heads, int64_t head_dim)
    : heads_(CheckedHeads("Sandwich", heads)), program_(SandwichProgram(heads, head_dim)) {}

std::optional<PositionProgram> SandwichImpl::program() const { return PositionProgram{program_, {}, heads_}; }

FireImpl::FireImpl(int64_t heads, int64_t width, double threshold)
    : heads_(CheckedHeads("Fire", heads)), width_(width), program_(FireProgram(width, threshold)) {
  CheckTable("Fire", "heads", heads, width);
  reset();
}

void FireImpl::reset() {
  const double bound = 1 / std::sqrt(static_cast<double>(width_));
  c = register_parameter("c", at::full({1}, 0.1));
  multiplier = register_parameter("multiplier", at::ones({1}));
  first_weight = register_parameter("first_weight", Uniform({width_}, -1, 1));
  first_bias = register_parameter("first_bias", Uniform({width_}, -1, 1));
  second_weight = register_parameter("second_weight", Uniform({heads_, width_}, -bound, bound));
  second_bias = register_parameter("second_bias", Uniform({heads_}, -bound, bound));
}

std::optional<PositionProgram> FireImpl::program() const {
  return PositionProgram{program_, {c, multiplier, first_weight, first_bias, second_weight, second_bias}, heads_};
}

TemperatureImpl::TemperatureImpl(int64_t heads) : heads_(CheckedHeads("Temperature", heads)) { reset(); }

void TemperatureImpl::reset() { log_scale = register_parameter("log_scale", at::zeros({heads_})); }

std::optional<PositionProgram> TemperatureImpl::program() const {
  static const ScoreProgram scaled = TemperatureProgram();
  return PositionProgram{scaled, {log_scale}, heads_};
}

SinusoidalBiasImpl::SinusoidalBiasImpl(int64_t heads, int64_t frequencies)
    : heads_(CheckedHeads("SinusoidalBias", heads)), frequencies_(frequencies), program_(SinusoidalBiasProgram(frequencies)) {
  CheckTable("SinusoidalBias", "heads", heads, frequencies);
  reset();
}

void SinusoidalBiasImpl::reset() {
  cosine = register_parameter("cosine", at::zeros({heads_, frequencies_}));
  sine = register_parameter("sine", at::zeros({heads_, frequencies_}));
}

std::optional<PositionProgram> SinusoidalBiasImpl::program() const { return PositionProgram{program_, {cosine, sine}, heads_}; }

}  // namespace heed::nn
