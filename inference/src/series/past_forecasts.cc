#include "heed/past_forecasts.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "heed/error.h"
#include "heed/portable_math.h"

namespace heed {
namespace {

constexpr int64_t kMostSeason = int64_t{1} << 20;
constexpr int64_t kMostHarmonics = 64;
constexpr int64_t kMostOfCurve = 1 << 14;  // steps of a sequence that a curve is fitted to, evenly spread
constexpr int64_t kMostPairs = 1 << 24;    // of values and horizons that the shares are fitted to

void RequireField(bool holds, const char* name) {
  if (!holds) throw InvalidArgument(std::string("'") + name + "' does not fit this kind of method");
}

double MeanOf(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

CalendarTerms TermsOf(const Calendar& method) { return {method.periods, method.harmonics, method.step}; }

// Of a moment: the line, then those of the calendar.
void FillTerms(const Calendar& method, double time, double* terms) {
  if (method.line) *terms++ = time / kCalendarPeriods[0].seconds;
  TermsOf(method).Fill(time, terms);
}

// Solves squares w = products, both overwritten: [count, count], of which the lower half is read, and [count]. Returns w.
double* SolveByCholesky(double* squares, double* products, int64_t count) {
  const auto row = [&](int64_t i) { return squares + i * count; };
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      const double sum = row(i)[j] - std::inner_product(row(i), row(i) + j, row(j), 0.0);
      if (i == j && !(sum > 0)) throw Error("calendar: its curve cannot be fitted to these times");
      row(i)[j] = i == j ? std::sqrt(sum) : sum / row(j)[j];
    }
    products[i] = (products[i] - std::inner_product(row(i), row(i) + i, products, 0.0)) / row(i)[i];
  }
  for (int64_t i = count - 1; i >= 0; --i) {
    for (int64_t j = i + 1; j < count; ++j) products[i] -= row(j)[i] * products[j];
    products[i] /= row(i)[i];
  }
  return products;
}

// Standardises the columns of X [rows, columns] in place; mean, deviation: [columns].
void Standardise(double* X, int64_t rows, int64_t columns, double* mean, double* deviation) {
  const auto count = static_cast<double>(rows);
  std::fill_n(mean, columns, 0.0), std::fill_n(deviation, columns, 0.0);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t c = 0; c < columns; ++c) mean[c] += X[i * columns + c];
  }
  for (int64_t c = 0; c < columns; ++c) mean[c] /= count;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t c = 0; c < columns; ++c) deviation[c] += (X[i * columns + c] - mean[c]) * (X[i * columns + c] - mean[c]);
  }
  for (int64_t c = 0; c < columns; ++c) deviation[c] = std::max(std::sqrt(deviation[c] / count), 1e-12);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t c = 0; c < columns; ++c) X[i * columns + c] = (X[i * columns + c] - mean[c]) / deviation[c];
  }
}

}  // namespace

void RepeatedSeason::Foretell(std::span<const double> past, std::span<double> values) const {
  const int64_t end = std::ssize(past);
  for (int64_t h = 0; h < std::ssize(values); ++h) values[h] = past[end + h - (h / season + 1) * season];
}

void Validate(const RepeatedSeason& method) { RequireField(1 <= method.season && method.season <= kMostSeason, "season"); }

double Smoothing::Smooth(std::span<const double> scaled, int64_t cycle, const SmoothedParts& parts) const {
  const int64_t count = std::ssize(scaled);
  const bool seasonal = cycle > 1 && count >= 2 * cycle;
  const int64_t first = seasonal ? cycle : 1;
  double level_now = MeanOf(scaled.first(first)), trend_now = 0, errors = 0;
  std::ranges::fill(parts.season, 0.0), std::ranges::fill(parts.level, level_now), std::ranges::fill(parts.trend, 0.0);
  if (seasonal) {
    const double middle = static_cast<double>(cycle - 1) / 2;
    trend_now = (MeanOf(scaled.subspan(cycle, cycle)) - level_now) / static_cast<double>(cycle);
    for (int64_t i = 0; i < cycle; ++i) parts.season[i] = scaled[i] - level_now - trend_now * (static_cast<double>(i) - middle);
    level_now += trend_now * middle;
  }
  for (int64_t i = first; i < count; ++i) {
    const double before = seasonal ? parts.season[i - cycle] : 0, ahead = level_now + damping * trend_now;
    const double error = scaled[i] - ahead - before;
    level_now = ahead + level * error;
    trend_now = damping * trend_now + level * trend * error;
    if (seasonal) parts.season[i] = before + season_rate * (1 - level) * error;
    errors += error * error;
    if (!parts.level.empty()) parts.level[i] = level_now, parts.trend[i] = trend_now;
  }
  return errors;
}

void Smoothing::Foretell(const SmoothedParts& parts, int64_t cycle, int64_t last, std::span<double> scaled) const {
  double moved = 0, left = 1;
  for (int64_t h = 0; h < std::ssize(scaled); ++h) {
    left *= damping, moved += left * parts.trend[last];
    scaled[h] = parts.level[last] + moved + parts.season[last - cycle + 1 + h % cycle];
  }
}

void Validate(const Smoothing& method) {
  RequireField(1 <= method.season && method.season <= kMostSeason, "season");
  const auto share = [](const char* name, double value) { RequireField(value >= 0 && value <= 1, name); };
  share("level", method.level), share("trend", method.trend);
  share("season_rate", method.season_rate), share("damping", method.damping);
}

void Calendar::FitCurve(std::span<const double> times, std::span<const double> scaled, std::span<double> curve,
                        ModelWorkspace& workspace) const {
  const ModelWorkspace::Frame frame(workspace);
  const int64_t known = std::ssize(scaled), terms = TermsOf(*this).count() + (line ? 1 : 0);
  const int64_t stride = std::max<int64_t>(1, known / kMostOfCurve), rows = (known + stride - 1) / stride;
  auto* const X = workspace.Take<double>(rows * terms);
  auto* const mean = workspace.Take<double>(terms);
  auto* const deviation = workspace.Take<double>(terms);
  auto* const squares = workspace.Take<double>(terms * terms);
  auto* const products = workspace.Take<double>(terms);
  double center = 0;
  for (int64_t i = 0; i < rows; ++i) {
    FillTerms(*this, times[i * stride], X + i * terms);
    center += scaled[i * stride] / static_cast<double>(rows);
  }
  Standardise(X, rows, terms, mean, deviation);
  const auto count = static_cast<double>(rows);
  std::fill_n(squares, terms * terms, 0.0), std::fill_n(products, terms, 0.0);
  for (int64_t i = 0; i < rows; ++i) {
    const double* const row = X + i * terms;
    const double level = scaled[i * stride] - center;
    for (int64_t a = 0; a < terms; ++a) {
      products[a] += row[a] * level / count;
      for (int64_t b = 0; b <= a; ++b) squares[a * terms + b] += row[a] * row[b];
    }
  }
  const double share = static_cast<double>(terms) / count;
  for (int64_t a = 0; a < terms; ++a) {
    for (int64_t b = 0; b <= a; ++b) squares[a * terms + b] = squares[a * terms + b] / count + (a == b ? share * share : 0);
  }
  const double* const W = SolveByCholesky(squares, products, terms);
  for (std::size_t i = 0; i < times.size(); ++i) {
    FillTerms(*this, times[i], X);
    curve[i] = center;
    for (int64_t c = 0; c < terms; ++c) curve[i] += (X[c] - mean[c]) / deviation[c] * W[c];
  }
}

void Validate(const Calendar& method) {
  RequireField(1 <= method.harmonics && method.harmonics <= kMostHarmonics, "harmonics");
  RequireField(std::isfinite(method.step) && method.step > 0, "step");
  RequireField(!method.periods.empty() && method.periods.size() <= std::size(kCalendarPeriods), "periods");
  for (const std::string& period : method.periods) RequireField(SecondsOfPeriod(period) >= 2 * method.step, "periods");
}

const std::string* PeriodUnseen(const Calendar& method, double seconds) {
  const auto unseen = std::ranges::find_if(
      method.periods, [&](const std::string& period) { return seconds < kPeriodsSeen * SecondsOfPeriod(period); });
  return unseen == method.periods.end() ? nullptr : &*unseen;
}

SharesLeft::SharesLeft(std::span<double> shares, int64_t steps, ModelWorkspace& workspace)
    : products_(shares), squares_(workspace.Take<double>(std::ssize(shares)), shares.size()) {
  stride_ = 1 + static_cast<int64_t>(static_cast<double>(steps) * static_cast<double>(shares.size()) / kMostPairs);
  std::ranges::fill(products_, 0.0), std::ranges::fill(squares_, 0.0);
}

void SharesLeft::Add(std::span<const double> beside) {
  const int64_t count = std::ssize(beside);
  for (int64_t h = 1; h <= std::ssize(products_); ++h) {
    for (int64_t i = 0; i + h < count; i += stride_)
      products_[h - 1] += beside[i] * beside[i + h], squares_[h - 1] += beside[i] * beside[i];
  }
}

void SharesLeft::Finish() {
  for (std::size_t h = 0; h < products_.size(); ++h) products_[h] = squares_[h] > 0 ? products_[h] / squares_[h] : 0;
}

}  // namespace heed
