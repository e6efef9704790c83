// Every whole number that a caller may give, at its largest and smallest: either it means what it says, or it is refused by
// name. None wraps around.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "heed/attention.h"
#include "heed/cache.h"
#include "heed/dropout.h"
#include "heed/positions.h"
#include "heed/rotary.h"
#include "problem.h"
#include "reference/reference.h"

namespace heed {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), kLeast = std::numeric_limits<int64_t>::min();
constexpr int64_t kFarthest = int64_t{1} << 53;  // position
const std::vector<int64_t> kExtremes{kLeast,        kLeast + 1, -kFarthest - 1, -kFarthest, -1,        0,    1,
                                     kFarthest - 4, kFarthest,  kFarthest + 1,  kMost - 5,  kMost - 1, kMost};

constexpr Shape kShape{2, 2, 2, 5, 6, 8, 8};

// Eps of the largest of a few scores of N(0, 1) numbers.
constexpr double kRounding = 64 * std::numeric_limits<double>::epsilon();

class Extremes : public ::testing::Test {
 protected:
  // Agrees with the reference, or is refused by a message that names `argument`. Returns whether it was accepted.
  bool AgreesOrNames(const Attention& attention, const std::string& argument, const std::string& what) {
    Problem<double> p(kShape);
    try {
      p.Run(attention, serial_);
    } catch (const InvalidArgument& error) {
      EXPECT_NE(std::string(error.what()).find(argument), std::string::npos) << what << ": " << error.what();
      return false;
    }
    const reference::Result expected =
        reference::Compute(attention, p.Queries(p.q), p.Keys(p.k), p.Values(p.v), p.Outputs(p.d_out), {});
    for (std::size_t x = 0; x < p.out.size(); ++x) EXPECT_NEAR(p.out[x], expected.out[x], kRounding) << what;
    for (std::size_t x = 0; x < p.d_k.size(); ++x) EXPECT_NEAR(p.d_k[x], expected.d.k[x], 8 * kRounding) << what;
    return true;
  }

  static void Names(const std::function<void()>& call, const std::string& argument) {
    try {
      call();
      ADD_FAILURE() << "accepted; expected a message with " << argument;
    } catch (const InvalidArgument& error) {
      EXPECT_NE(std::string(error.what()).find(argument), std::string::npos) << error.what();
    }
  }

  SerialExecutor serial_;
};

std::string Text(int64_t a) { return std::to_string(a); }

TEST_F(Extremes, WindowsOfAnySizeAreWhatTheySay) {
  for (Causal causal : {Causal::kNone, Causal::kBottomRight})
    for (int64_t left : kExtremes)
      for (int64_t right : kExtremes) {
        Attention attention;
        attention.causal = causal;
        attention.window = {left, right};
        const bool accepted = AgreesOrNames(attention, "window", "window " + Text(left) + ", " + Text(right));
        EXPECT_EQ(accepted, left >= -1 && right >= -1) << left << " " << right;
      }
}

TEST_F(Extremes, WindowsMeetOffsetsAndLists) {
  const std::vector<int64_t> list{kFarthest, -kFarthest, 0, 3, -7, kFarthest};
  for (int64_t bound : {kFarthest, kMost - 1, kMost}) {
    Attention attention;
    attention.window = {bound, bound};
    attention.query_positions.offset = kFarthest - 5;
    attention.key_positions.offset = -kFarthest;
    EXPECT_TRUE(AgreesOrNames(attention, "", "far apart, window " + Text(bound)));
    std::swap(attention.query_positions.offset, attention.key_positions.offset);
    EXPECT_TRUE(AgreesOrNames(attention, "", "far apart the other way, window " + Text(bound)));
    attention = {};
    attention.window = {bound, bound};
    attention.query_positions.list = View<const int64_t, 2>::Contiguous(list.data(), {1, 5});
    attention.key_positions.list = View<const int64_t, 2>::Contiguous(list.data(), {1, 6});
    EXPECT_TRUE(AgreesOrNames(attention, "", "listed, window " + Text(bound)));
  }
}

TEST_F(Extremes, OffsetsUpToTheFarthestPosition) {
  const std::vector<double> slopes{0x1p-52, 0x1p-53}, table{0.5, 0.25, 0.125, 1, 2, 3};
  for (Causal causal : {Causal::kNone, Causal::kBottomRight})
    for (int64_t query : kExtremes)
      for (int64_t key : kExtremes) {
        Attention attention;
        attention.causal = causal;
        attention.query_positions.offset = query;
        attention.key_positions.offset = key;
        attention.relative_bias = RelativeBias{View<const double, 2>::Contiguous(table.data(), {2, 3})};
        attention.slope_bias = SlopeBias{View<const double, 1>::Contiguous(slopes.data(), {2}), true};
        const auto fits = [](int64_t first, int64_t count) { return first >= -kFarthest && first <= kFarthest - (count - 1); };
        const bool accepted = AgreesOrNames(attention, "_positions", "offsets " + Text(query) + ", " + Text(key));
        EXPECT_EQ(accepted, fits(query, kShape.q_len) && fits(key, kShape.kv_len)) << query << " " << key;
      }
}

TEST_F(Extremes, ListedPositionsUpToTheFarthest) {
  for (int64_t position : kExtremes) {
    const std::vector<int64_t> list{0, 1, position, 3, 2, 5};
    Attention attention;
    attention.causal = Causal::kBottomRight;
    attention.query_positions.list = View<const int64_t, 2>::Contiguous(list.data(), {1, 5});
    attention.key_positions.list = View<const int64_t, 2>::Contiguous(list.data(), {1, 6});
    const bool accepted = AgreesOrNames(attention, "_positions", "listed " + Text(position));
    EXPECT_EQ(accepted, position >= -kFarthest && position <= kFarthest) << position;
  }
}

// Without an offset of their own queries stand where causality puts them, which may be outside as well.
TEST_F(Extremes, QueriesThatCausalityPlacesStandInsideToo) {
  Attention attention;
  attention.causal = Causal::kBottomRight;
  for (int64_t key : {-kFarthest, kFarthest - kShape.kv_len + 1}) {
    attention.key_positions.offset = key;
    EXPECT_TRUE(AgreesOrNames(attention, "", "keys from " + Text(key)));
  }
}

TEST_F(Extremes, BatchOffsetsStayWithinTheCounter) {
  for (int64_t offset : kExtremes) {
    Attention attention;
    attention.dropout = {0.5, 1, offset};
    const bool accepted = AgreesOrNames(attention, "batch", "batch_offset " + Text(offset));
    EXPECT_EQ(accepted, offset >= 0 && offset <= (int64_t{1} << 32) - kShape.batch) << offset;
    // Nothing counts where nothing is drawn.
    attention.dropout = {0, 1, offset};
    EXPECT_EQ(AgreesOrNames(attention, "batch", "batch_offset " + Text(offset)), offset >= 0) << offset;
  }
  for (int64_t offset : {(int64_t{1} << 32) - 2, (int64_t{1} << 32) - 1, int64_t{1} << 32}) {
    Attention attention;
    attention.dropout = {0.5, 1, offset};
    EXPECT_EQ(AgreesOrNames(attention, "batch", "batch_offset " + Text(offset)), offset == (int64_t{1} << 32) - 2);
  }
}

TEST_F(Extremes, LengthsOutsideTheArraysAreRefused) {
  for (int64_t length : kExtremes) {
    const std::vector<int64_t> lengths{length, 1};
    for (auto option : {&Attention::query_lengths, &Attention::key_lengths, &Attention::prefix_lengths}) {
      Attention attention;
      attention.causal = Causal::kTopLeft;
      attention.*option = Lengths::PerBatch(lengths.data(), 2);
      EXPECT_EQ(AgreesOrNames(attention, "_lengths", "length " + Text(length)), length == 0 || length == 1) << length;
    }
  }
}

TEST_F(Extremes, PackedOffsetsAreRefused) {
  for (int64_t offset : kExtremes) {
    Problem<double> p({1, 2, 2, 5, 5, 8, 8});
    const std::vector<int64_t> offsets{0, offset, 5};
    Attention attention;
    attention.packed.query_offsets = attention.packed.key_offsets = View<const int64_t, 1>::Contiguous(offsets.data(), {3});
    if (offset == 0 || offset == 1) {
      p.Run(attention, serial_);
    } else {
      Names([&] { p.Run(attention, serial_); }, "packed");
    }
  }
}

// Strides of 0 describe any number of elements in memory for one.
TEST_F(Extremes, ExtentsAndStridesThatDoNotFitAreRefused) {
  const double one = 1;
  const auto repeated = [&](std::array<int64_t, 4> extent) { return View<const double, 4>{&one, extent, {}}; };
  Workspace workspace;
  std::vector<double> memory(64);
  const auto run = [&](const View<const double, 4>& q, const View<const double, 4>& k, const View<const double, 4>& v,
                       std::array<int64_t, 4> out) {
    Forward<double>({}, q, k, v, View<double, 4>{memory.data(), out, {1, 1, 1, 1}}, {}, workspace, serial_);
  };
  const int64_t half = int64_t{1} << 32;
  for (std::size_t r = 0; r < 4; ++r)
    for (int64_t extent : {kLeast, int64_t{-1}, (int64_t{1} << 48) + 1, kMost}) {
      std::array<int64_t, 4> shape{1, 1, 1, 1};
      shape[r] = extent;
      Names([&] { run(repeated(shape), repeated({1, 1, 1, 1}), repeated({1, 1, 1, 1}), {1, 1, 1, 1}); }, "q");
      Names([&] { run(repeated({1, 1, 1, 1}), repeated(shape), repeated({1, 1, 1, 1}), {1, 1, 1, 1}); }, "k");
      Names([&] { run(repeated({1, 1, 1, 1}), repeated({1, 1, 1, 1}), repeated(shape), {1, 1, 1, 1}); }, "v");
      Names([&] { run(repeated({1, 1, 1, 1}), repeated({1, 1, 1, 1}), repeated({1, 1, 1, 1}), shape); }, "out");
    }
  // An extent of 0 hides no other.
  Names(
      [&] {
        run(repeated({0, half, half, half}), repeated({0, half, 1, half}), repeated({0, half, 1, 1}), {0, 1, 1, 1});
      },
      "q");
  // Strides whose reach leaves the numbers, one by one and in sum.
  for (int64_t stride : {kLeast, kLeast + 1, -(kMost / 8), kMost / 8 - 1, kMost}) {
    auto q = repeated({1, 1, 4, 4});
    q.stride = {0, 0, stride, stride};
    Names([&] { run(q, repeated({1, 1, 1, 4}), repeated({1, 1, 1, 1}), {1, 1, 4, 1}); }, "q");
  }
}

TEST_F(Extremes, TablesLargerThanTheirIndexAreRefused) {
  const double one = 1;
  // Just beyond what their indices hold, and far beyond.
  for (const int64_t rows : {(int64_t{1} << 25) + 1, (int64_t{1} << 30) + 1, (int64_t{1} << 31) + 1}) {
    Attention attention;
    attention.content_bias.emplace();
    attention.content_bias->keys = View<const double, 2>{&one, {rows, 8}, {0, 0}};
    EXPECT_FALSE(AgreesOrNames(attention, "content_bias", "rows")) << rows;
    attention = {};
    attention.transformer_xl = TransformerXl{View<const double, 3>{&one, {2, rows, 8}, {0, 0, 0}}, {}};
    EXPECT_FALSE(AgreesOrNames(attention, "transformer_xl.positions", "rows")) << rows;
    if (rows < int64_t{1} << 30) continue;
    attention = {};
    attention.relative_bias = RelativeBias{View<const double, 2>{&one, {2, rows}, {0, 0}}};
    EXPECT_FALSE(AgreesOrNames(attention, "relative_bias", "rows")) << rows;
  }
}

TEST_F(Extremes, MoreListedKeysThanRanksAreRefused) {
  const int64_t count = int64_t{1} << 31, position = 0;
  const double one = 1;
  Attention attention;
  attention.causal = Causal::kBottomRight;
  attention.key_positions.list = View<const int64_t, 2>{&position, {1, count}, {0, 0}};
  attention.query_positions.list = View<const int64_t, 2>{&position, {1, 1}, {0, 0}};
  Workspace workspace;
  double out = 0;
  Names(
      [&] {
        Forward<double>(attention, View<const double, 4>{&one, {1, 1, 1, 1}, {}},
                        View<const double, 4>{&one, {1, 1, count, 1}, {}}, View<const double, 4>{&one, {1, 1, count, 1}, {}},
                        View<double, 4>{&out, {1, 1, 1, 1}, {}}, {}, workspace, serial_);
      },
      "key_positions");
}

TEST_F(Extremes, WorkspaceQueriesRefuseShapesThatNoCallHas) {
  for (int64_t extent : {kLeast, int64_t{-1}, kMost}) {
    for (auto member : {&Shape::batch, &Shape::q_heads, &Shape::kv_heads, &Shape::q_len, &Shape::kv_len, &Shape::head_dim,
                        &Shape::value_dim}) {
      Shape shape = kShape;
      shape.*member = extent;
      Names([&] { ForwardWorkspace({}, shape, 4, 1); }, "shape");
      Names([&] { BackwardWorkspace({}, shape, 4, 1); }, "shape");
    }
  }
  for (int concurrency : {std::numeric_limits<int>::min(), -1, 0}) {
    Names([&] { ForwardWorkspace({}, kShape, 4, concurrency); }, "concurrency");
    Names([&] { BackwardWorkspace({}, kShape, 4, concurrency); }, "concurrency");
  }
  Names([&] { ForwardWorkspace({}, kShape, 3, 1); }, "element_bytes");
}

TEST_F(Extremes, CachesRefuseSizesThatDoNotFit) {
  for (int64_t size : {kLeast, int64_t{-1}, kMost, int64_t{1} << 61}) {
    Names([&] { KeyValueCache<float>(size, 1, 1, 1, 1); }, "KeyValueCache");
    Names([&] { KeyValueCache<float>(1, size, 1, 1, 1); }, "KeyValueCache");
    Names([&] { KeyValueCache<float>(1, 1, size, 1, 1); }, "KeyValueCache");
    Names([&] { KeyValueCache<float>(1, 1, 1, size, 1); }, "KeyValueCache");
    Names([&] { KeyValueCache<float>(1, 1, 1, 1, size); }, "KeyValueCache");
    KeyValueCache<float> cache(1, 1, 1, 1, 4);
    if (size > 0) Names([&] { cache.Reserve(size); }, "capacity");
    Names([&] { cache.Truncate(size); }, "length");
    const int64_t row = size;
    Names([&] { cache.Reorder(View<const int64_t, 1>::Contiguous(&row, {1})); }, "rows");
    EXPECT_EQ(cache.capacity(), 4);
  }
}

TEST_F(Extremes, ElementsBeyondTheCounterAreRefused) {
  std::vector<float> x(8, 1.0F), y(8);
  for (int64_t offset : kExtremes) {
    const Dropout dropout{0.5, 1, offset};
    if (offset == 0 || offset == 1) {
      DropElements(dropout, x.data(), y.data(), 8, serial_);
    } else {
      Names([&] { DropElements(dropout, x.data(), y.data(), 8, serial_); }, "batch_offset");
    }
    if (offset < 0 || offset > 8) Names([&] { DropElements({0.5, 1, 0}, x.data(), y.data(), offset, serial_); }, "count");
  }
}

TEST_F(Extremes, TablesOfPositionsRefuseWhatDoesNotFit) {
  std::vector<double> memory(64);
  const auto table = View<double, 2>::Contiguous(memory.data(), {4, 4});
  const RotaryFrequencies frequencies{{1.0, 0.5, 0.25, 0.125}};
  std::vector<double> sines(64);
  const auto sin = View<double, 2>::Contiguous(sines.data(), {4, 4});
  Names([&] { SinusoidalTable({}, kMost - 2, table); }, "first_position");
  Names([&] { RotaryTable(frequencies, kMost - 2, table, sin); }, "first_position");
  SinusoidalTable({}, kMost - 3, table);
  Names([&] { SinusoidalTable({}, 0, View<double, 2>{memory.data(), {4, 4}, {kMost / 2, 1}}); }, "strides out of range");
  for (int64_t distance : {kLeast, int64_t{-1}, kMost / 2, kMost})
    Names([&] { AlibiTable({0.5}, distance, table); }, "distance");
  std::vector<int64_t> buckets(9);
  for (int64_t reach : {kLeast, int64_t{-1}, kMost / 2 + 1, kMost})
    Names([&] { T5Buckets({}, reach, View<int64_t, 1>::Contiguous(buckets.data(), {9})); }, "buckets");
  for (int64_t heads : {kLeast, int64_t{0}, kMost}) Names([&] { AlibiSlopes(heads); }, "heads");
  for (int64_t width : {kLeast, int64_t{0}, kMost}) Names([&] { SinusoidalFrequencies(width); }, "width");
}

}  // namespace
}  // namespace heed
