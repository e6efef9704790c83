#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <utility>

#include "heed/error.h"
#include "heed/portable_math.h"
#include "heed/rotary.h"

namespace heed {
namespace {

// Every formula is evaluated in Real: float reproduces what Hugging Face computes, rounding for rounding.
template <class Real>
using Frequencies = std::vector<Real>;

[[noreturn]] void Refuse(const std::string& argument, const std::string& expected, double got) {
  throw InvalidArgument(argument + ": expected " + expected + ", got " + std::to_string(got));
}

void CheckPositive(const char* argument, double value) {
  if (!(value > 0) || !std::isfinite(value)) Refuse(argument, "a finite number above 0", value);
}

void CheckLength(int64_t original_length, int64_t least) {
  if (original_length < least)
    throw InvalidArgument("original_length: expected at least " + std::to_string(least) + ", got " +
                          std::to_string(original_length));
}

// base^(2t/dim)
template <class Real>
Frequencies<Real> Divisors(int64_t dim, double base) {
  Frequencies<Real> divisors;
  for (int64_t t = 0; t < dim / 2; ++t)
    divisors.push_back(static_cast<Real>(
        portable::Pow(double{static_cast<Real>(base)}, double{static_cast<Real>(2 * t) / static_cast<Real>(dim)})));
  return divisors;
}

template <class Real>
Frequencies<Real> Inverse(Frequencies<Real> divisors) {
  for (Real& value : divisors) value = 1 / value;
  return divisors;
}

double StretchedBase(const RotaryOptions& options, double factor) {
  const auto dim = static_cast<double>(options.rotary_dim);
  if (options.rotary_dim == 2)
    throw InvalidArgument("rotary_dim: expected at least 4, because this scaling raises the factor to dim/(dim-2), got 2");
  return options.base * portable::Pow(factor, dim / (dim - 2));
}

// A scaling as an overload: the frequencies it makes.
template <class Real>
struct Scaled {
  const RotaryOptions& options;
  const int64_t length;

  Frequencies<Real> Plain(double base) const { return Inverse(Divisors<Real>(options.rotary_dim, base)); }

  Frequencies<Real> operator()(const std::monostate&) const { return Plain(options.base); }

  Frequencies<Real> operator()(const LinearScaling& scaling) const {
    CheckPositive("factor", scaling.factor);
    Frequencies<Real> frequencies = Plain(options.base);
    for (Real& value : frequencies) value /= static_cast<Real>(scaling.factor);
    return frequencies;
  }

  Frequencies<Real> operator()(const NtkScaling& scaling) const {
    CheckPositive("factor", scaling.factor);
    return Plain(StretchedBase(options, scaling.factor));
  }

  Frequencies<Real> operator()(const DynamicScaling& scaling) const {
    CheckPositive("factor", scaling.factor);
    if (scaling.factor < 1) Refuse("factor", "at least 1 for dynamic scaling", scaling.factor);
    CheckLength(scaling.original_length, 1);
    const double ratio =
        static_cast<double>(std::max(length, scaling.original_length)) / static_cast<double>(scaling.original_length);
    return Plain(StretchedBase(options, scaling.factor * ratio - (scaling.factor - 1)));
  }

  Frequencies<Real> operator()(const YarnScaling& scaling) const;
  Frequencies<Real> operator()(const LongRopeScaling& scaling) const;
  Frequencies<Real> operator()(const Llama3Scaling& scaling) const;
};

// The pair, as a real number, that turns `turns` times over the original length.
double PairOfTurns(const RotaryOptions& options, double original_length, double turns) {
  return static_cast<double>(options.rotary_dim) * portable::Log(original_length / (turns * 2 * std::numbers::pi)) /
         (2 * portable::Log(options.base));
}

template <class Real>
Frequencies<Real> Scaled<Real>::operator()(const YarnScaling& scaling) const {
  CheckPositive("factor", scaling.factor);
  CheckPositive("beta_fast", scaling.beta_fast);
  CheckPositive("beta_slow", scaling.beta_slow);
  CheckLength(scaling.original_length, 1);
  const auto original = static_cast<double>(scaling.original_length);
  double low = PairOfTurns(options, original, scaling.beta_fast), high = PairOfTurns(options, original, scaling.beta_slow);
  if (scaling.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, static_cast<double>(options.rotary_dim - 1));
  if (low == high) high += 0.001;  // a step instead of a division by zero

  Frequencies<Real> frequencies = Divisors<Real>(options.rotary_dim, options.base);
  for (size_t t = 0; t < frequencies.size(); ++t) {
    const Real kept = 1 / frequencies[t], stretched = 1 / (static_cast<Real>(scaling.factor) * frequencies[t]);
    const Real ramp = std::clamp<Real>((static_cast<Real>(t) - static_cast<Real>(low)) / static_cast<Real>(high - low), 0, 1);
    const Real keep = 1 - ramp;
    frequencies[t] = stretched * (1 - keep) + kept * keep;
  }
  return frequencies;
}

template <class Real>
Frequencies<Real> Scaled<Real>::operator()(const LongRopeScaling& scaling) const {
  CheckLength(scaling.original_length, 2);  // its logarithm divides
  CheckPositive("factor", scaling.factor);
  const auto check = [&](const char* name, const std::vector<double>& factors) {
    if (static_cast<int64_t>(factors.size()) != options.rotary_dim / 2)
      throw InvalidArgument(std::string(name) + ": expected rotary_dim/2 = " + std::to_string(options.rotary_dim / 2) +
                            " numbers, got " + std::to_string(factors.size()));
    for (double factor : factors) CheckPositive(name, factor);
  };
  check("short_factors", scaling.short_factors);
  check("long_factors", scaling.long_factors);
  const std::vector<double>& factors = length > scaling.original_length ? scaling.long_factors : scaling.short_factors;
  Frequencies<Real> divisors = Divisors<Real>(options.rotary_dim, options.base);
  for (size_t t = 0; t < divisors.size(); ++t) divisors[t] *= static_cast<Real>(factors[t]);
  return Inverse(std::move(divisors));
}

template <class Real>
Frequencies<Real> Scaled<Real>::operator()(const Llama3Scaling& scaling) const {
  CheckPositive("factor", scaling.factor);
  CheckPositive("low_frequency_factor", scaling.low_frequency_factor);
  CheckPositive("high_frequency_factor", scaling.high_frequency_factor);
  if (scaling.high_frequency_factor <= scaling.low_frequency_factor)
    Refuse("high_frequency_factor", "a number above low_frequency_factor", scaling.high_frequency_factor);
  CheckLength(scaling.original_length, 1);
  const auto original = static_cast<Real>(scaling.original_length), factor = static_cast<Real>(scaling.factor);
  const auto low = static_cast<Real>(scaling.low_frequency_factor), high = static_cast<Real>(scaling.high_frequency_factor);
  Frequencies<Real> frequencies = Plain(options.base);
  for (Real& value : frequencies) {
    const Real wavelength = static_cast<Real>(2 * std::numbers::pi) / value;
    if (wavelength > original / low) {
      value /= factor;
    } else if (wavelength >= original / high) {
      const Real smooth = (original / wavelength - low) / (high - low);
      value = (1 - smooth) * value / factor + smooth * value;
    }
  }
  return frequencies;
}

// g(m) of YarnScaling.
double YarnMagnitude(double factor, double m) { return factor <= 1 ? 1.0 : 0.1 * m * portable::Log(factor) + 1.0; }

double AttentionFactor(const RotaryScaling& scaling) {
  if (const auto* yarn = std::get_if<YarnScaling>(&scaling)) {
    if (yarn->attention_factor) return *yarn->attention_factor;
    if (yarn->mscale && yarn->mscale_all_dim)
      return YarnMagnitude(yarn->factor, *yarn->mscale) / YarnMagnitude(yarn->factor, *yarn->mscale_all_dim);
    return YarnMagnitude(yarn->factor, 1.0);
  }
  if (const auto* long_rope = std::get_if<LongRopeScaling>(&scaling)) {
    if (long_rope->attention_factor) return *long_rope->attention_factor;
    if (long_rope->factor <= 1) return 1.0;
    return std::sqrt(1 + portable::Log(long_rope->factor) / portable::Log(static_cast<double>(long_rope->original_length)));
  }
  return 1.0;
}

}  // namespace

bool DependsOnLength(const RotaryScaling& scaling) {
  return std::holds_alternative<DynamicScaling>(scaling) || std::holds_alternative<LongRopeScaling>(scaling);
}

RotaryFrequencies ComputeRotaryFrequencies(const RotaryOptions& options, int64_t length) {
  // Beyond any model, and far below what would fill the memory.
  constexpr int64_t kMostColumns = int64_t{1} << 24;
  if (options.rotary_dim < 2 || options.rotary_dim % 2 != 0 || options.rotary_dim > kMostColumns)
    throw InvalidArgument("rotary_dim: expected an even number of at least 2 and at most 2^24, got " +
                          std::to_string(options.rotary_dim));
  // YaRN divides by the base's logarithm, and a base below 1 turns the order of the pairs round.
  if (!(options.base > 1) || !std::isfinite(options.base)) Refuse("base", "a finite number above 1", options.base);
  if (length < 0) throw InvalidArgument("length: expected at least 0, got " + std::to_string(length));
  RotaryFrequencies result;
  result.angles = options.angles;
  if (options.angles == Angles::kFloat64) {
    result.values = std::visit(Scaled<double>{options, length}, options.scaling);
  } else {
    const Frequencies<float> values = std::visit(Scaled<float>{options, length}, options.scaling);
    result.values.assign(values.begin(), values.end());
  }
  result.attention_factor = AttentionFactor(options.scaling);
  CheckPositive("attention_factor", result.attention_factor);
  return result;
}

}  // namespace heed
