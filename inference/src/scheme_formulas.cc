#include "heed/scheme_formulas.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <sstream>

#include "heed/error.h"
#include "heed/portable_math.h"

// Programs are written once and read the parameters as they are at each call.
namespace heed {
namespace {

constexpr double kFrequencyBase = 10000.0;
constexpr int64_t kMostTerms = 4096;  // as many operations as a program has at most

template <class... Parts>
[[noreturn]] void RefuseSize(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  throw InvalidArgument(text.str());
}

// Query position - key position. Positions, and not indices: they are what a call lists.
program::Expression Offset() { return program::QueryPosition() - program::KeyPosition(); }

// Before one is written out for every term.
void CheckTerms(const char* scheme, const char* name, int64_t terms) {
  if (terms > kMostTerms) RefuseSize(scheme, ": ", name, ": expected at most ", kMostTerms, " terms, got ", terms);
}

// DeBERTa's bucket of query position - key position, itself up to half of the buckets.
int64_t DebertaBucket(int64_t offset, int64_t buckets, int64_t max_distance) {
  const int64_t half = buckets / 2, distance = std::abs(offset);
  if (buckets == 0 || distance <= half) return offset;
  const auto logarithm = [half](int64_t far) {  // of far / half
    return portable::Log1p(static_cast<double>(far - half) / static_cast<double>(half));
  };
  const double share = logarithm(distance) / logarithm(max_distance - 1);
  // An exact power is the last of its bucket, whatever the logarithms were rounded to.
  constexpr double kRounded = 1 - 1e-13;
  const auto steps = static_cast<int64_t>(std::ceil(share * static_cast<double>(half - 1) * kRounded));
  return offset > 0 ? half + steps : -half - steps;
}

}  // namespace

bool TakesTimes(std::string_view scheme) {
  constexpr std::array<std::string_view, 9> kOfTimes = {"sinusoidal",   "rotary",   "xpos", "alibi",          "kerple",
                                                        "kerple_power", "sandwich", "fire", "sinusoidal_bias"};
  return std::ranges::find(kOfTimes, scheme) != kOfTimes.end();
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
  if (head_dim < 2 || head_dim % 2 != 0) RefuseSize("Sandwich: head_dim: expected an even number, got ", head_dim);
  CheckTerms("Sandwich", "head_dim", head_dim / 2);
  const auto width = static_cast<double>(head_dim);
  Expression total = 0.0;
  for (int64_t t = 1; t <= head_dim / 2; ++t)
    total = total + Cos(Offset() * portable::Pow(kFrequencyBase, -2.0 * static_cast<double>(t) / width));
  return ScoreProgram(Score() + (total - width / 2) * heads / (8.0 * (Head() + 1)));
}

ScoreProgram FireProgram(int64_t width, double threshold) {
  using namespace heed::program;
  if (width < 1 || !(threshold > 0 && std::isfinite(threshold)))
    RefuseSize("Fire: expected width > 0 and a finite threshold > 0, got ", width, " and ", threshold);
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
  if (frequencies < 1) RefuseSize("SinusoidalBias: frequencies: expected at least 1, got ", frequencies);
  CheckTerms("SinusoidalBias", "frequencies", frequencies);
  const Captured cosine(0), sine(1);
  Expression total = Score();
  for (int64_t t = 0; t < frequencies; ++t) {
    const Expression angle =
        Offset() * portable::Pow(kFrequencyBase, -static_cast<double>(t) / static_cast<double>(frequencies));
    total = total + (cosine(Head(), t) * Cos(angle) + sine(Head(), t) * Sin(angle));
  }
  return ScoreProgram(total);
}

std::vector<double> XPosRates(int64_t head_dim, double scale_base, RotaryLayout layout) {
  if (!(scale_base > 0 && std::isfinite(scale_base)))
    RefuseSize("XPos: scale_base: expected a number above 0, got ", scale_base);
  const auto width = static_cast<double>(head_dim);
  const int64_t pairs = head_dim / 2;
  std::vector<double> rates(static_cast<std::size_t>(2 * pairs));
  for (int64_t t = 0; t < pairs; ++t) {
    const double zeta = (static_cast<double>(2 * t) + 0.4 * width) / (1.4 * width), rate = -portable::Log(zeta) / scale_base;
    const bool half = layout == RotaryLayout::kHalf;
    rates[half ? t : 2 * t] = rates[half ? pairs + t : 2 * t + 1] = rate;
  }
  return rates;
}

std::vector<int64_t> DebertaRows(int64_t max_distance, int64_t buckets) {
  const int64_t span = buckets == 0 ? max_distance : buckets;
  std::vector<int64_t> rows;
  rows.reserve(static_cast<std::size_t>(2 * max_distance + 1));
  for (int64_t offset = -max_distance; offset <= max_distance; ++offset)
    rows.push_back(std::clamp<int64_t>(DebertaBucket(-offset, buckets, max_distance) + span, 0, 2 * span - 1));
  return rows;
}

}  // namespace heed
