#include "lab/inspection/weight_map.h"

#include <cmath>
#include <numeric>

#include <gtest/gtest.h>
#include <zlib.h>

namespace heed::lab {
namespace {

// A matrix whose rows sum to 1, [tokens, tokens].
std::vector<float> Matrix(int64_t tokens, bool causal) {
  std::vector<float> weights(tokens * tokens);
  for (int64_t i = 0; i < tokens; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < (causal ? i + 1 : tokens); ++j) sum += weights[i * tokens + j] = 1 + (7 * i + 13 * j) % 11;
    for (int64_t j = 0; j < tokens; ++j) weights[i * tokens + j] /= static_cast<float>(sum);
  }
  return weights;
}

TEST(MapGeometry, TheFirstTokenIsACellOfItsOwn) {
  const MapGeometry geometry{10, 4, true};
  const std::vector<int64_t> cells = {0, 1, 1, 1, 1, 2, 2, 2, 2, 3};
  for (int64_t token = 0; token < 10; ++token) EXPECT_EQ(geometry.CellOf(token), cells[token]) << token;
  EXPECT_EQ(geometry.cells(), 4);
  EXPECT_EQ(geometry.size(), 10);
  EXPECT_EQ((MapGeometry{10, 4, false}.size()), 16);
  EXPECT_EQ((MapGeometry{1, 4, true}.cells()), 1);
  EXPECT_EQ((MapGeometry{7, 1, true}.cells()), 7);
}

TEST(EncodeMap, KeepsEveryWeightAtFullResolution) {
  const WeightCode code(12);
  for (const bool causal : {true, false}) {
    const int64_t tokens = 23;
    const std::vector<float> weights = Matrix(tokens, causal);
    const std::vector<uint8_t> codes = EncodeMap(code, {tokens, 1, causal}, weights);
    std::size_t at = 0;
    for (int64_t i = 0; i < tokens; ++i) {
      for (int64_t j = 0; j < (causal ? i + 1 : tokens); ++j) {
        const double weight = weights[i * tokens + j];
        EXPECT_NEAR(code.Decode(codes[at++]), weight, weight * code.relative_error() * (1 + 1e-6));
      }
    }
    EXPECT_EQ(at, codes.size());
  }
}

TEST(EncodeMap, CoarserCellsHoldTheMeanOfWhatQueriesGiveToAllTheirKeys) {
  const WeightCode code(12);
  const int64_t tokens = 22;
  for (const bool causal : {true, false}) {
    const MapGeometry geometry{tokens, 4, causal};
    const std::vector<float> weights = Matrix(tokens, causal);
    const std::vector<uint8_t> codes = EncodeMap(code, geometry, weights);
    ASSERT_EQ(static_cast<int64_t>(codes.size()), geometry.size());
    std::size_t at = 0;
    for (int64_t row = 0; row < geometry.cells(); ++row) {
      double sum = 0;
      for (int64_t column = 0; column < (causal ? row + 1 : geometry.cells()); ++column) {
        double expected = 0;
        int queries = 0;
        for (int64_t i = 0; i < tokens; ++i) {
          if (geometry.CellOf(i) != row) continue;
          ++queries;
          for (int64_t j = 0; j < tokens; ++j) expected += geometry.CellOf(j) == column ? weights[i * tokens + j] : 0;
        }
        expected /= queries;
        const double shown = code.Decode(codes[at++]);
        EXPECT_NEAR(shown, expected, expected * code.relative_error() * (1 + 1e-6)) << row << " " << column;
        sum += shown;
      }
      EXPECT_NEAR(sum, 1, code.relative_error()) << row;
    }
  }
}

TEST(EncodeThumbnail, ShowsTheLargestWeightOfEachPart) {
  const WeightCode code(12);
  const int64_t tokens = 7, side = 3;  // tokens 0-2, 3-4, 5-6
  std::vector<float> weights(tokens * tokens, 0.001F);
  weights[6 * tokens + 0] = 0.5F;
  weights[3 * tokens + 4] = 0.25F;
  weights[0] = 1.0F;
  const std::vector<uint8_t> whole = EncodeThumbnail(code, tokens, side, weights, false);
  ASSERT_EQ(whole.size(), 9u);
  EXPECT_EQ(whole[0], code.Encode(1.0));
  EXPECT_EQ(whole[2 * side + 0], code.Encode(0.5));
  EXPECT_EQ(whole[1 * side + 1], code.Encode(0.25));
  EXPECT_EQ(whole[1], code.Encode(0.001));
}

TEST(EncodeThumbnail, WithoutTheFirstKeyTheRestOfARowSumsToOne) {
  const WeightCode code(12);
  // Row 0 has nothing but the first key, row 1 nearly so.
  const std::vector<float> weights = {1.0F, 0, 0, 0.99999F, 0.00001F, 0, 0.5F, 0.125F, 0.375F};
  const std::vector<uint8_t> rest = EncodeThumbnail(code, 3, 3, weights, true);
  const std::vector<double> expected = {0, 0, 0, 0, 1, 0, 0, 0.25, 0.75};
  for (std::size_t i = 0; i < rest.size(); ++i) EXPECT_EQ(rest[i], code.Encode(expected[i])) << i;
}

std::vector<uint8_t> Unbase64(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<uint8_t> bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<uint32_t>(digits.find(c));
    count += 6;
    if (count >= 8) bytes.push_back(static_cast<uint8_t>(bits >> (count -= 8)));
  }
  return bytes;
}

TEST(Pack, ComesBackWhateverTheLength) {
  for (const int length : {0, 1, 2, 3, 4, 100, 70000}) {
    std::vector<uint8_t> codes(length);
    for (int i = 0; i < length; ++i) codes[i] = static_cast<uint8_t>(i * i + i / 256);
    const std::string packed = Pack(codes);
    EXPECT_EQ(packed.size() % 4, 0u);
    EXPECT_EQ(packed.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="), std::string::npos);
    const std::vector<uint8_t> bytes = Unbase64(packed);
    std::vector<uint8_t> back(length + 1);
    uLongf size = back.size();
    uLong read = bytes.size();
    ASSERT_EQ(uncompress2(back.data(), &size, bytes.data(), &read), Z_OK);
    EXPECT_EQ(read, bytes.size()) << "nothing stands behind the end";
    back.resize(size);
    EXPECT_EQ(back, codes) << length;
  }
}

}  // namespace
}  // namespace heed::lab
