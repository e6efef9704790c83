#include <algorithm>
#include <cmath>
#include <string>

#include "core/arrays.h"
#include "core/checked_integer.h"
#include "heed/error.h"
#include "heed/portable_math.h"
#include "heed/positions.h"

namespace heed {
namespace {

void CheckTable(bool present, int64_t steps, int64_t width, double base) {
  if (steps < 0) throw InvalidArgument("table: expected at least 0 steps, got " + std::to_string(steps));
  if (width < 1 || width > core::kMostElements)
    throw InvalidArgument("table: expected a width of at least 1 and at most 2^48, got " + std::to_string(width));
  if (!present && steps > 0)
    throw InvalidArgument("table: expected memory for [" + std::to_string(steps) + ", " + std::to_string(width) +
                          "], got none");
  if (!(base > 0)) throw InvalidArgument("base: expected a positive number, got " + std::to_string(base));
}

// The exponent of the base that frequency t is divided by.
double Exponent(SinusoidalSpacing spacing, int64_t t, int64_t width) {
  if (spacing == SinusoidalSpacing::kGeometric) return 2.0 * static_cast<double>(t) / static_cast<double>(width);
  return static_cast<double>(t) / static_cast<double>(std::max<int64_t>(1, width / 2 - 1));
}

// What positions are divided by, rounded as the option asks.
double Divisor(const SinusoidalOptions& options, double exponent) {
  if (options.angles == Angles::kFloat64) return portable::Pow(options.base, exponent);
  const auto base = static_cast<float>(options.base), power = static_cast<float>(exponent);
  return static_cast<float>(portable::Pow(double{base}, double{power}));
}
double Angle(const SinusoidalOptions& options, double position, double divisor) {
  if (options.angles == Angles::kFloat64) return position / divisor;
  return static_cast<float>(position) / static_cast<float>(divisor);
}

// position_of(i): of row i.
template <class T, class PositionOf>
void FillSinusoidal(const SinusoidalOptions& options, View<T, 2> table, const PositionOf& position_of) {
  const int64_t steps = table.extent[0], width = table.extent[1];
  const bool inclusive = options.spacing == SinusoidalSpacing::kInclusive;
  const int64_t sines = inclusive ? width / 2 : (width + 1) / 2;
  const bool interleaved = options.layout == SinusoidalLayout::kInterleaved;
  std::vector<double> divisors;
  for (int64_t t = 0; steps > 0 && t < sines; ++t) divisors.push_back(Divisor(options, Exponent(options.spacing, t, width)));
  for (int64_t i = 0; i < steps; ++i) {
    const double position = position_of(i);
    for (int64_t t = 0; t < sines; ++t) {
      const double angle = Angle(options, position, divisors[static_cast<size_t>(t)]);
      table(i, interleaved ? 2 * t : t) = static_cast<T>(portable::Sin(angle));
      const int64_t cosine = interleaved ? 2 * t + 1 : sines + t;
      if (cosine < width) table(i, cosine) = static_cast<T>(portable::Cos(angle));
    }
    if (inclusive && width % 2 == 1) table(i, width - 1) = 0;
  }
}

template <class T>
void CheckSinusoidal(const SinusoidalOptions& options, View<T, 2> table) {
  CheckTable(table.present(), table.extent[0], table.extent[1], options.base);
  core::CheckPresent("table", table);
  core::CheckDistinct("table", table);
}

template <class T>
void FillInARow(const SinusoidalOptions& options, int64_t first_position, View<T, 2> table) {
  CheckSinusoidal(options, table);
  core::CheckedSum(first_position, std::max<int64_t>(0, table.extent[0] - 1), "first_position");
  FillSinusoidal(options, table, [&](int64_t i) { return static_cast<double>(first_position + i); });
}

template <class T>
void FillListed(const SinusoidalOptions& options, View<const double, 1> positions, View<T, 2> table) {
  CheckSinusoidal(options, table);
  core::CheckPresent("positions", positions);
  if (positions.extent[0] != table.extent[0])
    throw InvalidArgument("positions: expected one for each of the table's " + std::to_string(table.extent[0]) + " rows, got " +
                          std::to_string(positions.extent[0]));
  for (int64_t i = 0; i < positions.extent[0]; ++i)
    if (!std::isfinite(positions(i)))
      throw InvalidArgument("positions: expected finite numbers, got " + std::to_string(positions(i)));
  FillSinusoidal(options, table, [&](int64_t i) { return positions(i); });
}

template <class T>
void FillAlibi(const std::vector<double>& slopes, int64_t max_distance, View<T, 2> table) {
  const int64_t heads = static_cast<int64_t>(slopes.size());
  if (max_distance < 0 || max_distance > core::kMostElements)
    throw InvalidArgument("max_distance: expected at least 0 and at most 2^48, got " + std::to_string(max_distance));
  if (table.extent[0] != heads || table.extent[1] != 2 * max_distance + 1)
    throw InvalidArgument("table: expected [heads, 2 * max_distance + 1] = [" + std::to_string(heads) + ", " +
                          std::to_string(2 * max_distance + 1) + "], got [" + std::to_string(table.extent[0]) + ", " +
                          std::to_string(table.extent[1]) + "]");
  core::CheckPresent("table", table);
  core::CheckDistinct("table", table);
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t delta = -max_distance; delta <= max_distance; ++delta)
      table(h, delta + max_distance) = static_cast<T>(-slopes[static_cast<size_t>(h)] * static_cast<double>(std::abs(delta)));
}

// The slopes of a power of two: 2^(-8/H), 2^(-16/H), ..., 2^-8.
std::vector<double> PowerOfTwoSlopes(int64_t heads) {
  std::vector<double> slopes;
  for (int64_t h = 1; h <= heads; ++h)
    slopes.push_back(portable::Exp2(-8.0 * static_cast<double>(h) / static_cast<double>(heads)));
  return slopes;
}

}  // namespace

void SinusoidalTable(const SinusoidalOptions& options, int64_t first_position, View<float, 2> table) {
  FillInARow(options, first_position, table);
}

void SinusoidalTable(const SinusoidalOptions& options, int64_t first_position, View<double, 2> table) {
  FillInARow(options, first_position, table);
}

void SinusoidalTable(const SinusoidalOptions& options, View<const double, 1> positions, View<float, 2> table) {
  FillListed(options, positions, table);
}

void SinusoidalTable(const SinusoidalOptions& options, View<const double, 1> positions, View<double, 2> table) {
  FillListed(options, positions, table);
}

std::vector<double> SinusoidalFrequencies(int64_t width, double base) {
  CheckTable(true, 0, width, base);
  std::vector<double> frequencies;
  for (int64_t t = 0; t < (width + 1) / 2; ++t)
    frequencies.push_back(1.0 / portable::Pow(base, 2.0 * static_cast<double>(t) / static_cast<double>(width)));
  return frequencies;
}

std::vector<double> AlibiSlopes(int64_t heads) {
  // Beyond any model, and far below what would fill the memory.
  constexpr int64_t kMostHeads = int64_t{1} << 24;
  if (heads < 1 || heads > kMostHeads)
    throw InvalidArgument("heads: expected at least 1 and at most 2^24, got " + std::to_string(heads));
  int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  std::vector<double> slopes = PowerOfTwoSlopes(power);
  const std::vector<double> doubled = PowerOfTwoSlopes(2 * power);
  for (int64_t h = 0; h < heads - power; ++h) slopes.push_back(doubled[static_cast<size_t>(2 * h)]);
  return slopes;
}

void AlibiTable(const std::vector<double>& slopes, int64_t max_distance, View<float, 2> table) {
  FillAlibi(slopes, max_distance, table);
}

void AlibiTable(const std::vector<double>& slopes, int64_t max_distance, View<double, 2> table) {
  FillAlibi(slopes, max_distance, table);
}

}  // namespace heed
