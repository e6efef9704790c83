// A head's matrix of attention weights as a page holds it.
#ifndef HEED_LAB_INSPECTION_WEIGHT_MAP_H_
#define HEED_LAB_INSPECTION_WEIGHT_MAP_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace heed::lab {

// Attention weights in eight bits each, evenly spaced in their logarithm: code c > 0 stands for 2^((c - 255) /
// steps_per_octave), so that 255 is 1; code 0 stands for 0 and for every weight that is nearer to it than 2^-kOctaves is.
// Relative steps are what an eye and a logarithmic scale see alike everywhere.
class WeightCode {
 public:
  static constexpr int kOctaves = 21;  // 4.8e-7: rows of thousands of keys lose less than a hundredth of a per cent to zero

  static constexpr int kMostSteps = 254 / kOctaves;  // what eight bits have room for

  // 1 to kMostSteps.
  explicit WeightCode(int steps_per_octave) : steps_per_octave_(steps_per_octave) {}

  int steps_per_octave() const { return steps_per_octave_; }
  uint8_t Encode(double weight) const;  // of 0..1
  double Decode(uint8_t code) const;
  double least() const;           // the smallest weight that is not shown as 0
  double relative_error() const;  // the most by which a decoded weight of least() or more is off, as a share of it

 private:
  int steps_per_octave_;
};

// How tokens make up the rows and columns of a map. Cell 0 is the first token alone, which so often is an attention sink; each
// other cell is `bin` tokens, the last perhaps fewer.
struct MapGeometry {
  int64_t tokens = 0;
  int64_t bin = 1;
  bool causal = false;  // token i gives weight to tokens 0..i alone; only columns 0..i of row i are kept

  int64_t CellOf(int64_t token) const { return token == 0 ? 0 : 1 + (token - 1) / bin; }
  int64_t cells() const { return tokens == 0 ? 0 : CellOf(tokens - 1) + 1; }
  int64_t size() const { return causal ? cells() * (cells() + 1) / 2 : cells() * cells(); }  // codes of a map
};

// weights [tokens, tokens], row by row. A cell of the map is what the queries of its row give, on average, to all the keys of
// its column together, so that rows still sum to 1. Returns geometry.size() codes, row by row.
std::vector<uint8_t> EncodeMap(const WeightCode& code, const MapGeometry& geometry, std::span<const float> weights);

// A small picture: side x side codes, row by row, each of the largest weight in its part of the matrix; token t falls into
// row or column t * side / tokens. Without the first key the others of a row are rescaled to sum to 1; a row that has no others
// is empty. Needs side <= tokens.
std::vector<uint8_t> EncodeThumbnail(const WeightCode& code, int64_t tokens, int64_t side, std::span<const float> weights,
                                     bool without_first);

// Codes as text for a page: compressed (zlib, RFC 1950), then base64 (RFC 4648).
std::string Pack(std::span<const uint8_t> codes);

}  // namespace heed::lab

#endif  // HEED_LAB_INSPECTION_WEIGHT_MAP_H_
