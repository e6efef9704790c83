#include <algorithm>
#include <cmath>
#include <string>

#include "core/arrays.h"
#include "core/checked_integer.h"
#include "heed/error.h"
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

// The angle of frequency t at a position, rounded as the option asks.
double Angle(Angles angles, double base, int64_t position, int64_t t, int64_t width) {
  const double exponent = 2.0 * static_cast<double>(t) / static_cast<double>(width);
  if (angles == Angles::kFloat64) return static_cast<double>(position) / std::pow(base, exponent);
  const float divisor = std::pow(static_cast<float>(base), static_cast<float>(exponent));
  return static_cast<float>(position) / divisor;
}

template <class T>
void FillSinusoidal(const SinusoidalOptions& options, int64_t first_position, View<T, 2> table) {
  const int64_t steps = table.extent[0], width = table.extent[1];
  CheckTable(table.present(), steps, width, options.base);
  core::CheckPresent("table", table);
  core::CheckDistinct("table", table);
  core::CheckedSum(first_position, std::max<int64_t>(0, steps - 1), "first_position");
  const int64_t sines = (width + 1) / 2;
  const bool interleaved = options.layout == SinusoidalLayout::kInterleaved;
  for (int64_t i = 0; i < steps; ++i) {
    for (int64_t t = 0; t < sines; ++t) {
      const double angle = Angle(options.angles, options.base, first_position + i, t, width);
      table(i, interleaved ? 2 * t : t) = static_cast<T>(std::sin(angle));
      const int64_t cosine = interleaved ? 2 * t + 1 : sines + t;
      if (cosine < width) table(i, cosine) = static_cast<T>(std::cos(angle));
    }
  }
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
  for (int64_t h = 1; h <= heads; ++h) slopes.push_back(std::exp2(-8.0 * static_cast<double>(h) / static_cast<double>(heads)));
  return slopes;
}

}  // namespace

void SinusoidalTable(const SinusoidalOptions& options, int64_t first_position, View<float, 2> table) {
  FillSinusoidal(options, first_position, table);
}

void SinusoidalTable(const SinusoidalOptions& options, int64_t first_position, View<double, 2> table) {
  FillSinusoidal(options, first_position, table);
}

std::vector<double> SinusoidalFrequencies(int64_t width, double base) {
  CheckTable(true, 0, width, base);
  std::vector<double> frequencies;
  for (int64_t t = 0; t < (width + 1) / 2; ++t)
    frequencies.push_back(1.0 / std::pow(base, 2.0 * static_cast<double>(t) / static_cast<double>(width)));
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
