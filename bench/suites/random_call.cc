#include "bench/suites/random_call.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/core.h>

#include "heed/error.h"

namespace heed::lab {
namespace {

class Draw {
 public:
  Draw(Random& random, const DrawLimits& limits) : random_(random), limits_(limits) {}

  CallCase Call() {
    CallCase c;
    DrawShape(c);
    DrawOptions(c);
    const double type = random_.Uniform();
    c.type = type < 0.4    ? BenchType::kFloat
             : type < 0.7  ? BenchType::kBFloat16
             : type < 0.85 ? BenchType::kHalf
                           : BenchType::kDouble;
    c.threads = Chance(0.7) ? 1 : limits_.threads;
    const bool decodes = c.shape.q_len <= 8 && c.shape.kv_len > c.shape.q_len;
    c.pass = Chance(decodes ? 0.9 : 0.5) ? BenchPass::kForward : BenchPass::kForwardBackward;
    return c;
  }

 private:
  bool Chance(double probability) { return random_.Uniform() < probability; }
  // From low to high, every factor of two as likely as the others.
  int64_t Between(int64_t low, int64_t high) {
    const double ratio = static_cast<double>(high + 1) / static_cast<double>(low);
    const double drawn = static_cast<double>(low) * std::pow(ratio, random_.Uniform());
    return std::clamp(static_cast<int64_t>(drawn), low, high);
  }
  template <class T, std::size_t kCount>
  T OneOf(const std::array<T, kCount>& values) {
    return values[random_.Below(kCount)];
  }

  int64_t Width() {
    if (Chance(0.6)) return OneOf<int64_t, 3>({32, 64, 128});
    return Chance(0.5) ? 8 * (1 + static_cast<int64_t>(random_.Below(32))) : 8 + static_cast<int64_t>(random_.Below(249));
  }
  void DrawShape(CallCase& c) {
    Shape& shape = c.shape;
    DrawLengths(c);
    shape.batch = Chance(0.4) ? 1 : Between(1, 64);
    shape.kv_heads = OneOf<int64_t, 9>({1, 2, 3, 4, 6, 8, 8, 12, 16});
    shape.q_heads = shape.kv_heads * (Chance(0.65) ? 1 : OneOf<int64_t, 5>({2, 3, 4, 7, 8}));
    shape.head_dim = Width();
    shape.value_dim = Chance(0.85) ? shape.head_dim : Width();
  }

  void DrawLengths(CallCase& c) {
    Shape& shape = c.shape;
    const double kind = random_.Uniform();
    if (kind < 0.25) {  // decoding
      shape.q_len = Chance(0.6) ? 1 : 1 + static_cast<int64_t>(random_.Below(8));
      shape.kv_len = std::max(shape.q_len, Between(1, limits_.longest));
      if (Chance(0.3)) c.causal = Causal::kBottomRight;
    } else if (kind < 0.85) {  // self-attention
      shape.q_len = shape.kv_len = Between(1, limits_.longest);
      if (Chance(0.45)) c.causal = Causal::kBottomRight;
    } else {
      shape.q_len = Between(1, limits_.longest);
      shape.kv_len = Between(1, limits_.longest);
      if (Chance(0.3)) c.causal = Chance(0.5) ? Causal::kBottomRight : Causal::kTopLeft;
    }
  }

  void DrawOptions(CallCase& c) {
    using enum CallCase::Bias;
    const int64_t keys = c.shape.kv_len;
    if (Chance(0.15)) c.window = {Between(1, keys) - 1, 0};
    if (c.window.present() && c.causal == Causal::kNone && Chance(0.5)) c.window.right = c.window.left;
    c.key_lengths = Chance(0.12);
    c.query_lengths = c.key_lengths && Chance(0.3);
    c.mask = Chance(0.07);
    if (Chance(0.15)) c.bias = OneOf<CallCase::Bias, 3>({kConstant, kTrainable, kTrainableRelative});
    if (Chance(0.12)) c.dropout = 0.1;
  }

  Random& random_;
  const DrawLimits& limits_;
};

double Product(std::initializer_list<int64_t> factors) {
  double product = 1;
  for (const int64_t factor : factors) product *= static_cast<double>(factor);
  return product;
}

}  // namespace

double OperationsOf(const CallCase& c) {
  const Shape& s = c.shape;
  const double pairs = Product({s.batch, s.q_heads, s.q_len, s.kv_len});
  const auto key = static_cast<double>(s.head_dim), value = static_cast<double>(s.value_dim);
  return 2 * pairs * (c.pass == BenchPass::kForward ? key + value : 4 * key + 3 * value);
}

double BytesOf(const CallCase& c) {
  using enum CallCase::Bias;
  const Shape& s = c.shape;
  const double size = ElementBytes(c.type), sum = std::max(size, 4.0);  // of an element, and of the type of computation
  const int64_t width = std::max(s.head_dim, s.value_dim);
  const double queries = Product({s.batch, s.q_heads, s.q_len, width}), keys = Product({s.batch, s.kv_heads, s.kv_len, width});
  const double repeated = Product({s.batch, s.q_heads, s.kv_len, width});
  const double pairs = Product({s.q_len, s.kv_len}), scores = Product({s.batch, s.q_heads}) * pairs;
  const bool backward = c.pass != BenchPass::kForward;
  // Arrays, their gradients and padded copies of both; numbers are drawn in float32.
  double bytes = (6 * size + 4) * (2 * queries + 2 * keys) + 8 * size * repeated;
  // heed's sums, one set a chunk, and the scratch area of each thread.
  bytes += 16 * sum * (queries + keys) * (backward ? 1 : 0) + 8.0 * (1 << 20) * c.threads;
  // LibTorch's quadratic path: scores, weights, what dropout leaves of them, and the gradients of each.
  const bool quadratic = c.dropout > 0 || s.head_dim != s.value_dim || c.bias == kTrainable || c.bias == kTrainableRelative;
  if (quadratic) bytes += (backward ? 8 : 5) * sum * scores;
  // Masks: drawn, compared, added, and converted in the call.
  const auto rows = static_cast<double>(c.mask ? s.batch : DifferentRows(c));
  const bool is_causal = c.causal == Causal::kTopLeft || s.q_len == s.kv_len;  // what LibTorch has a word for
  const bool causal = c.causal != Causal::kNone && (!is_causal || c.mask || c.bias != kNone);
  const bool order = causal || c.window.present() || c.key_lengths || c.query_lengths;
  if (order || c.mask) bytes += (8 + 4 * size) * rows * pairs;
  if (c.bias != kNone) {
    const double matrix = static_cast<double>(s.q_heads) * pairs;
    bytes += (4 + 4 * size + 2 * sum) * matrix + (order || c.mask ? 3 * size * rows * matrix : 0);
  }
  if (c.bias == kTrainableRelative) bytes += 24 * pairs;  // columns of the table
  return bytes;
}

CallCase DrawCall(Random& random, const DrawLimits& limits) {
  constexpr int kMostDraws = 100000;
  Draw draw(random, limits);
  for (int drawn = 0; drawn < kMostDraws; ++drawn) {
    const CallCase c = draw.Call();
    if (BytesOf(c) <= limits.bytes && OperationsOf(c) <= limits.operations) return c;
  }
  throw InvalidArgument(
      fmt::format("--search-memory: expected more, {:.0f} MiB are too few for nearly all calls", limits.bytes / (1 << 20)));
}

}  // namespace heed::lab
