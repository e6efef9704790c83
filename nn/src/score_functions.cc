#include "heed/nn/score_functions.h"

#include <cmath>
#include <optional>

#include <ATen/ATen.h>

#include "refuse.h"
#include "sizes.h"

// Programs are written once and read the parameters as they are at each call.
namespace heed::nn {
namespace {

constexpr double kLeast = 0.01, kBase = 10000.0;
constexpr int64_t kMostTerms = 4096;  // as many operations as a program has at most

// Query position - key position. Positions, and not indices: they are what a call lists.
program::Expression Offset() { return program::QueryPosition() - program::KeyPosition(); }

int64_t CheckedHeads(const char* scheme, int64_t heads) {
  if (heads < 1) Refuse(scheme, ": heads: expected at least 1, got ", heads);
  CheckSize(scheme, "heads", heads);
  return heads;
}

// Before one is written out for every term.
void CheckTerms(const char* scheme, const char* name, int64_t terms) {
  if (terms > kMostTerms) Refuse(scheme, ": ", name, ": expected at most ", kMostTerms, " terms, got ", terms);
}

ScoreProgram KerpleProgram(KerpleKind kind) {
  using namespace heed::program;
  const Expression rate = Captured(0)(Head()), scale = Captured(1)(Head());
  const Expression distance = Abs(Offset());
  // 0^rate is 0, and has no gradient there.
  const Expression kernel = kind == KerpleKind::kLog ? rate * Log1p(scale * distance) : scale * Power(distance, rate);
  return ScoreProgram(Score() - kernel);
}

ScoreProgram SandwichProgram(int64_t heads, int64_t head_dim) {
  using namespace heed::program;
  if (head_dim < 2 || head_dim % 2 != 0) Refuse("Sandwich: head_dim: expected an even number, got ", head_dim);
  CheckTerms("Sandwich", "head_dim", head_dim / 2);
  const auto width = static_cast<double>(head_dim);
  Expression total = 0.0;
  for (int64_t t = 1; t <= head_dim / 2; ++t)
    total = total + Cos(Offset() * std::pow(kBase, -2.0 * static_cast<double>(t) / width));
  return ScoreProgram(Score() + (total - width / 2) * heads / (8.0 * (Head() + 1)));
}

ScoreProgram FireProgram(int64_t width, double threshold) {
  using namespace heed::program;
  if (width < 1 || !(threshold > 0 && std::isfinite(threshold)))
    Refuse("Fire: expected width > 0 and a finite threshold > 0, got ", width, " and ", threshold);
  CheckTerms("Fire", "width", width);
  const Captured first_weight(2), first_bias(3), second_weight(4), second_bias(5);
  const Expression c = Abs(Captured(0)(0)), least = Abs(Captured(1)(0) * threshold);
  const Expression far = Log1p(c * Max(QueryPosition(), least));
  const Expression x = Log1p(c * Abs(Offset())) / (far + 1e-6);
  Expression total = Score() + second_bias(Head());
  for (int64_t unit = 0; unit < width; ++unit)
    total = total + second_weight(Head(), unit) * Max(first_weight(unit) * x + first_bias(unit), 0.0);
  return ScoreProgram(total);
}

ScoreProgram TemperatureProgram() {
  using namespace heed::program;
  return ScoreProgram(Score() * Exp(Captured(0)(Head())));
}

ScoreProgram SinusoidalBiasProgram(int64_t frequencies) {
  using namespace heed::program;
  if (frequencies < 1) Refuse("SinusoidalBias: frequencies: expected at least 1, got ", frequencies);
  CheckTerms("SinusoidalBias", "frequencies", frequencies);
  const Captured cosine(0), sine(1);
  Expression total = Score();
  for (int64_t t = 0; t < frequencies; ++t) {
    const Expression angle = Offset() * std::pow(kBase, -static_cast<double>(t) / static_cast<double>(frequencies));
    total = total + (cosine(Head(), t) * Cos(angle) + sine(Head(), t) * Sin(angle));
  }
  return ScoreProgram(total);
}

// From kLeast on, with the gradient of what they count as: a number beyond the limits can come back.
at::Tensor Limited(const at::Tensor& numbers, std::optional<double> most) {
  const std::optional<at::Scalar> highest = most ? std::optional<at::Scalar>(*most) : std::nullopt;
  return numbers + (numbers.clamp(kLeast, highest) - numbers).detach();
}

at::Tensor Uniform(at::IntArrayRef shape, double low, double high) { return at::empty(shape).uniform_(low, high); }

}  // namespace

KerpleImpl::KerpleImpl(int64_t heads, KerpleKind kind) : heads_(CheckedHeads("Kerple", heads)), kind_(kind) { reset(); }

void KerpleImpl::reset() {
  rate = register_parameter("rate", Uniform({heads_}, 0, 2));
  scale = register_parameter("scale", Uniform({heads_}, 0, 1));
}

std::optional<PositionProgram> KerpleImpl::program() const {
  static const ScoreProgram log = KerpleProgram(KerpleKind::kLog), power = KerpleProgram(KerpleKind::kPower);
  const bool is_log = kind_ == KerpleKind::kLog;
  const at::Tensor limited = Limited(rate, is_log ? std::nullopt : std::optional(2.0));
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
