// A row has the same bits alone and beside others, and for any number of threads.
#include "encoder_bits.h"

#include <cstring>

#include <gtest/gtest.h>

namespace heed {
namespace {

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

BitsBatch Batch(int64_t width) { return BitsBatch({1, 2, 3, 4, 5, 8, 9, 17, 64, 70, 4, 200, 1}, width); }

TEST(EncoderBits, OfARowAreThoseAlone) {
  SerialExecutor serial;
  for (const BitsEncoder& made : AllBitsEncoders()) {
    const BitsBatch batch = Batch(made.options.width);
    const std::vector<float> all = batch.Encoded(*made.encoder, serial);
    for (int64_t row = 0; row < batch.rows(); ++row)
      EXPECT_TRUE(SameBits(batch.Row(all, row), batch.Alone(*made.encoder, row, serial)))
          << made.name << ", a row of " << batch.lengths[static_cast<std::size_t>(row)] << " steps";
  }
}

// Beside rows of other lengths too.
TEST(EncoderBits, OfARowDoNotDependOnTheLongest) {
  SerialExecutor serial;
  for (const BitsEncoder& made : AllBitsEncoders()) {
    const BitsBatch alone({3}, made.options.width);
    for (const int64_t longest : {4, 5, 66}) {
      BitsBatch batch({longest, 3}, made.options.width);
      std::copy(alone.numbers.begin(), alone.numbers.end(), batch.numbers.begin() + longest * batch.width);
      EXPECT_TRUE(SameBits(batch.Row(batch.Encoded(*made.encoder, serial), 1), alone.Alone(*made.encoder, 0, serial)))
          << made.name << ", beside " << longest << " steps";
    }
  }
}

TEST(EncoderBits, DoNotDependOnThreads) {
  SerialExecutor serial;
  for (const BitsEncoder& made : AllBitsEncoders()) {
    // Beyond 1,024 keys attention is split where rows are few.
    const bool any_length = made.options.position != "learned";
    const BitsBatch batch = any_length ? BitsBatch({3, 1100}, made.options.width) : Batch(made.options.width);
    const std::vector<float> one = batch.Encoded(*made.encoder, serial);
    for (const int threads : {2, 8}) {
      ThreadPool pool(threads);
      EXPECT_TRUE(SameBits(one, batch.Encoded(*made.encoder, pool))) << made.name << ", " << threads << " threads";
    }
  }
}

}  // namespace
}  // namespace heed
