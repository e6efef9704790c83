// Calls of attention through the C interface, whose sizes and strides may be anything that memory can be behind.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "heed/heed.h"
#include "tests/fuzz/readers/reader.h"

namespace heed::fuzz {
namespace {

constexpr std::size_t kMostBytes = 1 << 14;  // behind an array
constexpr int64_t kMostExtent = 64;          // of a cache
constexpr char kUnwritten = 0x5A;
constexpr int64_t kHuge[] = {INT64_MAX, INT64_MIN, int64_t{1} << 32, int64_t{1} << 62};

// An array with just the memory that its extents and strides reach.
class Memory {
 public:
  // rank 3 or 4; absent: for optional arrays.
  Memory(Draw& draw, heed_type type, std::array<int64_t, 4> extent, bool absent = false) : rank_(extent[3] < 0 ? 3 : 4) {
    if (absent) return;
    const std::size_t bytes = type == HEED_FLOAT64 ? 8 : type == HEED_FLOAT32 ? 4 : 2;
    if (rank_ == 3) extent[3] = 1;
    array_ = heed_contiguous(nullptr, extent[0], extent[1], extent[2], extent[3]);
    const int64_t what = draw.UpTo(127), dimension = what % rank_;
    if (what < 64) Disturb(draw, what, dimension);
    int64_t low = 0, high = 0;
    for (int d = 0; d < rank_; ++d) {
      if (array_.extent[d] <= 1) continue;  // its stride is never taken
      const int64_t reach = (array_.extent[d] - 1) * array_.stride[d];
      (reach < 0 ? low : high) += reach;
    }
    const bool empty = std::any_of(array_.extent, array_.extent + rank_, [](int64_t extent) { return extent <= 0; });
    memory_.assign(empty ? 1 : static_cast<std::size_t>(high - low + 1) * bytes, kUnwritten);
    Require(memory_.size() <= kMostBytes, "the test itself takes too much memory");
    array_.data = memory_.data() - low * static_cast<int64_t>(bytes);
    // A call refuses it, as it contradicts another array's: no two have the same.
    if (what > 123) array_.extent[dimension] = kHuge[what % 4] ^ draw.left();
  }

  const heed_array& array() const { return array_; }
  // Small numbers.
  void Fill(Draw& draw) {
    for (std::size_t i = 0; i < memory_.size(); ++i) memory_[i] = static_cast<char>(i % 2 == 1 ? 0x3C : draw.UpTo(255));
  }
  bool written() const {
    return std::any_of(memory_.begin(), memory_.end(), [](char byte) { return byte != kUnwritten; });
  }

 private:
  // Now and then one extent or stride is another.
  void Disturb(Draw& draw, int64_t what, int64_t dimension) {
    int64_t& extent = array_.extent[dimension];
    int64_t& stride = array_.stride[dimension];
    if (what >= 40 && what < 48) extent += draw.UpTo(2) - 1;
    if (what >= 48 && what < 52 && extent <= 1) stride = draw.Integer();
    if (what >= 52 && what < 56) stride = -stride;
    if (what >= 56 && what < 60) stride = draw.UpTo(3);
    if (what >= 60) extent = -1 - draw.UpTo(1);
  }

  int rank_;
  heed_array array_{};
  std::vector<char> memory_;
};

// Some more, as an array may have one row more than others.
std::vector<int64_t> Integers(Draw& draw, int64_t count) {
  constexpr int64_t kMore = 16;
  std::vector<int64_t> numbers(static_cast<std::size_t>(count + kMore));
  for (int64_t& number : numbers) number = draw.Integer();
  return numbers;
}

// Options of a call of these sizes, and the memory behind them.
struct Options {
  std::vector<int64_t> query_lengths, key_lengths, query_positions, key_positions;
  Memory bias;
  std::vector<double> tables, slopes;  // as long as those of floats, and longer
  heed_attention attention = heed_attention_default();

  Options(Draw& draw, heed_type type, int64_t batch, int64_t heads, int64_t q_len, int64_t kv_len)
      : query_lengths(Integers(draw, batch)),
        key_lengths(Integers(draw, batch * q_len)),
        query_positions(Integers(draw, q_len)),
        key_positions(Integers(draw, kv_len)),
        bias(draw, type == HEED_FLOAT64 ? HEED_FLOAT64 : HEED_FLOAT32,
             {draw.UpTo(1) == 1 ? batch : 1, draw.UpTo(1) == 1 ? heads : 1, q_len, draw.UpTo(3) == 1 ? 1 : kv_len},
             /*absent=*/draw.UpTo(3) != 0) {
    bias.Fill(draw);
    const auto has = [&] { return draw.UpTo(3) == 3; };
    attention.bias = bias.array();
    if (has()) attention.struct_bytes = static_cast<std::size_t>(draw.UpTo(7)) * 64;
    if (draw.UpTo(7) != 0) attention.struct_bytes = sizeof(heed_attention);
    if (has()) attention.scale = draw.Real();
    if (has()) attention.softcap = draw.Real();
    if (has()) attention.causal = static_cast<heed_causal>(draw.Integer());
    if (has()) attention.window_left = draw.Integer(), attention.window_right = draw.Integer();
    if (has()) attention.query_lengths = query_lengths.data();
    if (has()) attention.key_lengths = key_lengths.data(), attention.key_lengths_per_query = static_cast<int>(draw.UpTo(1));
    if (has()) attention.query_positions = query_positions.data();
    if (has()) attention.key_positions = key_positions.data();
    attention.max_distance = has() ? -draw.UpTo(9) : draw.UpTo(9);
    tables.assign(static_cast<std::size_t>(heads * (2 * std::abs(attention.max_distance) + 1) + 1), 0.001);
    slopes.assign(static_cast<std::size_t>(heads + 1), draw.Real());
    if (has()) attention.relative_bias = tables.data();
    if (has()) attention.slopes = slopes.data();
    if (has()) attention.dropout = draw.Real(), attention.dropout_seed = static_cast<uint64_t>(draw.Integer());
    if (has()) attention.empty_row = static_cast<heed_empty_row>(draw.UpTo(2));
  }
};

heed_status Checked(heed_status status) {
  Require(status == HEED_OK || status == HEED_INVALID_ARGUMENT, "a call failed: " + std::string(heed_message()));
  return status;
}

// Keys in two parts, then a query over them.
void Decode(Draw& draw, heed_type type, const Options& options, const Memory& q, const Memory& k, const Memory& v, Memory& out,
            Memory& lse) {
  heed_cache* cache = nullptr;
  const auto size = [&](const Memory& of, int d) {
    return (draw.UpTo(15) == 15 ? draw.Integer() : of.array().extent[d]) % kMostExtent;
  };
  if (Checked(heed_cache_create(type, size(k, 0), size(k, 1), size(k, 3), size(v, 3), draw.UpTo(9), &cache)) != HEED_OK) return;
  for (int times = 0; times < 2; ++times) Checked(heed_cache_append(cache, k.array(), v.array()));
  if (draw.UpTo(1) == 1) Checked(heed_cache_truncate(cache, draw.Integer()));
  // Lists of keys would have to be as long as the cache.
  heed_attention attention = options.attention;
  attention.key_positions = nullptr;
  if (attention.bias.extent[3] == heed_cache_length(cache) || attention.bias.data == nullptr)
    Checked(heed_cache_attend(cache, &attention, q.array(), out.array(), lse.array()));
  heed_cache_destroy(cache);
}

void Call(std::string_view bytes) {
  Draw draw(bytes);
  const auto type = static_cast<heed_type>(draw.UpTo(3));
  const int64_t batch = draw.UpTo(2), group = draw.UpTo(3), kv_heads = draw.UpTo(2), heads = group * kv_heads;
  const int64_t q_len = draw.UpTo(5), kv_len = draw.UpTo(9), head_dim = draw.UpTo(4), value_dim = draw.UpTo(4);
  const heed_type wide = type == HEED_FLOAT64 ? HEED_FLOAT64 : HEED_FLOAT32;
  const auto make = [&](heed_type of, int64_t h, int64_t n, int64_t d, bool absent = false) {
    return Memory(draw, of, {batch, h, n, d}, absent);
  };
  Memory q = make(type, heads, q_len, head_dim), k = make(type, kv_heads, kv_len, head_dim),
         v = make(type, kv_heads, kv_len, value_dim);
  Memory out = make(type, heads, q_len, value_dim), lse = make(wide, heads, q_len, -1, draw.UpTo(7) == 7);
  Memory d_out = make(type, heads, q_len, value_dim);
  Memory d_q = make(type, heads, q_len, head_dim, draw.UpTo(7) == 7), d_k = make(type, kv_heads, kv_len, head_dim),
         d_v = make(type, kv_heads, kv_len, value_dim);
  Options options(draw, type, batch, heads, q_len, kv_len);
  for (Memory* given : {&q, &k, &v, &d_out}) given->Fill(draw);
  if (draw.UpTo(7) == 7) {
    Decode(draw, type, options, q, k, v, out, lse);
    return;
  }
  Memory remainder = make(HEED_BFLOAT16, heads, q_len, value_dim, draw.UpTo(1) == 1),
         correction = make(wide, heads, q_len, -1, draw.UpTo(1) == 1);
  heed_forward_arrays forward = heed_forward_arrays_default();
  forward.q = q.array(), forward.k = k.array(), forward.v = v.array(), forward.out = out.array(), forward.lse = lse.array();
  forward.remainder = remainder.array(), forward.correction = correction.array();
  const heed_status status = Checked(heed_forward_by_name(&options.attention, type, &forward));
  Require(status == HEED_OK || !(out.written() || lse.written() || remainder.written() || correction.written()),
          "a call that was refused wrote");
  if (status != HEED_OK) return;
  std::vector<double> tables(options.tables.size()), slopes(options.slopes.size());
  heed_gradients gradients{d_q.array(), d_k.array(), d_v.array(), {}, nullptr, nullptr};
  if (options.attention.relative_bias != nullptr) gradients.relative_bias = tables.data();
  if (options.attention.slopes != nullptr) gradients.slopes = slopes.data();
  Memory d_lse = make(wide, heads, q_len, -1, draw.UpTo(1) == 1);
  d_lse.Fill(draw);
  heed_backward_arrays backward = heed_backward_arrays_default();
  backward.q = q.array(), backward.k = k.array(), backward.v = v.array(), backward.out = out.array(),
  backward.lse = lse.array();
  backward.d_out = d_out.array(), backward.d_lse = d_lse.array();
  backward.remainder = remainder.array(), backward.correction = correction.array();
  const heed_status back = Checked(heed_backward_by_name(&options.attention, type, &backward, &gradients));
  Require(back == HEED_OK || !(d_q.written() || d_k.written() || d_v.written()), "a backward pass that was refused wrote");
}

// Bytes 0 give the smallest numbers and no option.
std::vector<std::string> Calls() {
  std::vector<std::string> seeds;
  for (const char type : {'\0', '\1', '\2', '\3'}) {
    seeds.push_back(std::string{type, 2, 2, 1, 4, 7, 3, 2} + std::string(200, '\0'));
    std::string all;
    for (int i = 0; i < 400; ++i) all += static_cast<char>(i * 37);
    seeds.push_back(std::string{type, 1, 1, 2, 3, 9, 4, 4} + all);
  }
  return seeds;
}

}  // namespace

const Reader kAttention{"attention", "a call of the C interface: sizes, strides, options", Call, Calls};

}  // namespace heed::fuzz
