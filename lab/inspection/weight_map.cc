#include "lab/inspection/weight_map.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <new>
#include <numeric>

#include <zlib.h>

namespace heed::lab {
namespace {

// What one row of cells holds, before it is encoded.
void EncodeRow(const WeightCode& code, std::span<const double> row, std::vector<uint8_t>& codes) {
  for (const double weight : row) codes.push_back(code.Encode(std::min(weight, 1.0)));
}

std::string Base64(std::span<const uint8_t> bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - at);
    uint32_t group = 0;
    for (std::size_t i = 0; i < 3; ++i) group = group << 8 | (i < count ? bytes[at + i] : 0u);
    for (std::size_t i = 0; i < 4; ++i) text.push_back(i <= count ? kDigits[group >> (18 - 6 * i) & 63] : '=');
  }
  return text;
}

constexpr int kOne = 255;  // the code of weight 1

}  // namespace

std::vector<uint8_t> EncodeMap(const WeightCode& code, const MapGeometry& geometry, std::span<const float> weights) {
  const int64_t tokens = geometry.tokens, cells = geometry.cells();
  std::vector<uint8_t> codes;
  codes.reserve(geometry.size());
  std::vector<double> sums(cells);
  for (int64_t first = 0, cell = 0; first < tokens; ++cell) {
    const int64_t last = std::min(first + (cell == 0 ? 1 : geometry.bin), tokens);
    std::fill(sums.begin(), sums.end(), 0.0);
    for (int64_t query = first; query < last; ++query) {
      const float* row = weights.data() + query * tokens;
      for (int64_t key = 0; key < tokens; ++key) sums[geometry.CellOf(key)] += row[key];
    }
    for (double& sum : sums) sum /= static_cast<double>(last - first);
    EncodeRow(code, std::span(sums).first(geometry.causal ? cell + 1 : cells), codes);
    first = last;
  }
  return codes;
}

std::vector<uint8_t> EncodeThumbnail(const WeightCode& code, int64_t tokens, int64_t side, std::span<const float> weights,
                                     bool without_first) {
  std::vector<double> largest(side * side);
  for (int64_t query = 0; query < tokens; ++query) {
    const float* row = weights.data() + query * tokens;
    double* pixels = largest.data() + query * side / tokens * side;
    const int64_t first = without_first ? 1 : 0;
    // Summed, not 1 minus the first: where that is nearly 1, the difference would be rounding error.
    const double rest = without_first ? std::accumulate(row + 1, row + tokens, 0.0) : 1.0;
    if (rest <= 0) continue;
    for (int64_t key = first; key < tokens; ++key) {
      double& pixel = pixels[key * side / tokens];
      pixel = std::max(pixel, row[key] / rest);
    }
  }
  std::vector<uint8_t> codes;
  codes.reserve(largest.size());
  EncodeRow(code, largest, codes);
  return codes;
}

std::string Pack(std::span<const uint8_t> codes) {
  uLongf size = compressBound(codes.size());
  std::vector<uint8_t> packed(size);
  // With a buffer of that bound, memory is all that compress2 can miss.
  if (compress2(packed.data(), &size, codes.data(), codes.size(), Z_DEFAULT_COMPRESSION) != Z_OK) throw std::bad_alloc();
  return Base64(std::span(packed).first(size));
}

uint8_t WeightCode::Encode(double weight) const {
  if (weight < least()) return 0;
  const double code = kOne + std::round(steps_per_octave_ * std::log2(weight));
  return static_cast<uint8_t>(std::clamp(code, 1.0, double{kOne}));
}

double WeightCode::Decode(uint8_t code) const {
  return code == 0 ? 0.0 : std::exp2(static_cast<double>(code - kOne) / steps_per_octave_);
}

double WeightCode::least() const { return std::exp2(-kOctaves - 0.5 / steps_per_octave_); }

double WeightCode::relative_error() const { return std::exp2(0.5 / steps_per_octave_) - 1.0; }

}  // namespace heed::lab
