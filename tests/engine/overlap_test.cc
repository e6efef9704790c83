// No output shares memory with an input, with another output or with itself: every pair of arrays that a call has.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <list>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "core/regions.h"
#include "heed/attention.h"
#include "heed/cache.h"
#include "heed/dropout.h"
#include "position/scheme_set.h"
#include "reference/formulas.h"
#include "reference/random_cases.h"
#include "reference/random_tables.h"
#include "reference/schemes.h"

namespace heed {
namespace {

constexpr int64_t kBatch = 2, kHeads = 2, kTokens = 6, kWidth = 4;

// Every array that any call may have, in one block of memory, each with room of its own.
class Arrays {
 public:
  enum class Order { kLists, kPrefix, kPacked };

  explicit Arrays(Order order) {
    const bool packed = order == Order::kPacked;
    const int64_t b = packed ? 1 : kBatch, n = packed ? kBatch * kTokens : kTokens;
    for (auto* view : {&q, &k, &v, &out, &d_out, &d_q, &d_k, &d_v}) *view = Take(std::array{b, kHeads, n, kWidth});
    for (auto* view : {&lse, &d_lse, &statistics.entropy, &statistics.max_weight, &statistics.mean_distance, &d_entropy,
                       &d_max_weight, &d_mean_distance})
      *view = Take(std::array{b, kHeads, n});
    largest_key = View<int64_t, 3>::Contiguous(reinterpret_cast<int64_t*>(Take(std::array{b, kHeads, n}).data), {b, kHeads, n});
    weights = Take(std::array<int64_t, 4>{kBatch, 1, 1, kTokens});
    SetTables(order);
    SetMask();
    attention.query_lengths.values = Whole<2>({kBatch, 1}, {4, 6});
    attention.key_lengths.values = Whole<2>({kBatch, 1}, {5, 3});
    if (order == Order::kLists) {
      attention.query_positions.list = Whole<2>({1, kTokens}, {0, 1, 2, 3, 4, 5});
      attention.key_positions.list = Whole<2>({1, kTokens}, {5, 1, 2, 3, 4, 0});
    } else {
      attention.causal = Causal::kBottomRight;
      attention.prefix_lengths.values = Whole<2>({kBatch, 1}, {1, 2});
    }
    if (packed) {
      attention.packed.query_offsets = Whole<1>({kBatch + 1}, {0, kTokens, 2 * kTokens});
      attention.packed.key_offsets = Whole<1>({kBatch + 1}, {0, kTokens, 2 * kTokens});
    }
    attention.dropout.probability = 0.25;
    heads = Whole<1>({1}, {1});
    rows = Whole<1>({1}, {2});
  }
  Arrays(const Arrays&) = delete;
  Arrays& operator=(const Arrays&) = delete;

  View<double, 4> q, k, v, out, d_out, d_q, d_k, d_v, weights;
  View<double, 3> lse, d_lse, d_entropy, d_max_weight, d_mean_distance;
  View<int64_t, 3> largest_key;
  Statistics<double> statistics;
  BiasGradients<double> d_biases;
  View<const int64_t, 1> heads, rows;
  Attention attention;

 private:
  static constexpr int64_t kRoom = 8192;  // doubles; any array here fits behind the start of any other

  template <std::size_t kRank>
  View<double, static_cast<int>(kRank)> Take(const std::array<int64_t, kRank>& extent) {
    const auto view = View<double, static_cast<int>(kRank)>::Contiguous(memory_.data() + used_, extent);
    EXPECT_LE(view.size(), kRoom);
    used_ += kRoom;
    std::fill_n(view.data, view.size(), 0.5);
    return view;
  }
  template <int Rank>
  View<const int64_t, Rank> Whole(const std::array<int64_t, Rank>& extent, const std::vector<int64_t>& numbers) {
    const auto view = View<int64_t, Rank>::Contiguous(reinterpret_cast<int64_t*>(memory_.data() + used_), extent);
    used_ += kRoom;
    std::copy(numbers.begin(), numbers.end(), view.data);
    return view;
  }
  // Every table that schemes have, and its gradient. Of schemes that refuse each other, lists have the last, others the first.
  void SetTables(Order order) {
    std::vector<reference::Option> options;
    reference::Case c;
    c.shape = {kBatch, kHeads, kHeads, kTokens, kTokens, kWidth, kWidth};
    reference::Random random(1);
    reference::TableMemory<double> memory;
    reference::RandomTables<double> tables(c.layout, random, memory);
    reference::ForEachScheme([&]<class Scheme>() { Scheme::AddOptions(options); });
    if (order == Order::kLists) std::reverse(options.begin(), options.end());
    std::vector<reference::Option> taken;
    if (order != Order::kLists) taken.push_back({"prefix", "prefix_lengths", {}, {}});
    for (const reference::Option& option : options) {
      const auto refuse = [](const reference::Option& a, const reference::Option& b) {
        return std::ranges::find(a.manners.refuses, b.name) != a.manners.refuses.end();
      };
      const auto clashes = [&](const reference::Option& other) { return refuse(option, other) || refuse(other, option); };
      if (std::ranges::any_of(taken, clashes)) continue;
      option.set(c, random);
      taken.push_back(option);
    }
    attention.causal = c.causal;
    reference::ForEachScheme([&]<class Scheme>() {
      Scheme::LimitArrays(c);
      Scheme::Fill(c, c.shape, tables, attention);
    });
    const auto move = [&](const char*, auto& table) {
      const auto extent = reference::TableExtent(table);
      table = View<const double, static_cast<int>(extent.size())>(Take(extent));
    };
    position::ForEachScheme([&]<class Scheme>() { Scheme::ForEachArray(attention, move); });
    position::ForEachSchemeGradient(attention, d_biases, [&](const char*, auto& gradient, const auto* table) {
      if (table) gradient = Take(reference::TableExtent(*table));
    });
  }
  void SetMask() {
    bool* seen = reinterpret_cast<bool*>(memory_.data() + used_);
    used_ += kRoom;
    std::fill_n(seen, kTokens * kTokens, true);
    attention.mask.values = View<const bool, 4>::Contiguous(seen, {1, 1, kTokens, kTokens});
  }

  std::vector<double> memory_ = std::vector<double>(96 * kRoom);
  int64_t used_ = 0;
};

// Calls visit(name, view) for what a kind of call reads besides its options, and for what it writes.
struct Call {
  const char* name;
  Arrays::Order order;
  std::function<void(Arrays&, const std::function<void(const char*, void**)>&)> inputs, outputs;
  std::function<void(Arrays&)> run;
};

using Visit = std::function<void(const char*, void**)>;

template <class View>
void Show(const Visit& visit, const char* name, View& view) {
  visit(name, const_cast<void**>(reinterpret_cast<const void* const*>(&view.data)));
}

void ForwardInputs(Arrays& a, const Visit& visit) { Show(visit, "q", a.q), Show(visit, "k", a.k), Show(visit, "v", a.v); }
void ForwardOutputs(Arrays& a, const Visit& visit) {
  Show(visit, "out", a.out), Show(visit, "lse", a.lse), Show(visit, "statistics.entropy", a.statistics.entropy);
  Show(visit, "statistics.max_weight", a.statistics.max_weight);
  Show(visit, "statistics.mean_distance", a.statistics.mean_distance), Show(visit, "largest_key", a.largest_key);
}
void RunForward(Arrays& a) {
  SerialExecutor serial;
  Workspace workspace;
  Forward<double>(a.attention, a.q, a.k, a.v, a.out, a.lse, workspace, serial, a.statistics, {}, {}, a.largest_key);
}

void BackwardInputs(Arrays& a, const Visit& visit) {
  ForwardInputs(a, visit);
  Show(visit, "out", a.out), Show(visit, "lse", a.lse), Show(visit, "d_out", a.d_out), Show(visit, "d_lse", a.d_lse);
  Show(visit, "statistics.entropy", a.statistics.entropy), Show(visit, "statistics.d_entropy", a.d_entropy);
  Show(visit, "statistics.max_weight", a.statistics.max_weight), Show(visit, "statistics.d_max_weight", a.d_max_weight);
  Show(visit, "statistics.mean_distance", a.statistics.mean_distance);
  Show(visit, "statistics.d_mean_distance", a.d_mean_distance), Show(visit, "statistics.largest_key", a.largest_key);
}
void BackwardOutputs(Arrays& a, const Visit& visit) {
  Show(visit, "d_q", a.d_q), Show(visit, "d_k", a.d_k), Show(visit, "d_v", a.d_v);
  position::ForEachSchemeGradient(a.attention, a.d_biases, [&](const char* name, auto& gradient, const auto* table) {
    if (table) Show(visit, name, gradient);
  });
}
void RunBackward(Arrays& a) {
  SerialExecutor serial;
  Workspace workspace;
  const StatisticGradients<double> statistics{.entropy = a.statistics.entropy,
                                              .max_weight = a.statistics.max_weight,
                                              .mean_distance = a.statistics.mean_distance,
                                              .largest_key = a.largest_key,
                                              .d_entropy = a.d_entropy,
                                              .d_max_weight = a.d_max_weight,
                                              .d_mean_distance = a.d_mean_distance};
  Backward<double>(a.attention, a.q, a.k, a.v, a.out, a.lse, a.d_out, a.d_q, a.d_k, a.d_v, a.d_biases, workspace, serial,
                   a.d_lse, {}, {}, statistics);
}

void WeightsInputs(Arrays& a, const Visit& visit) {
  Show(visit, "q", a.q), Show(visit, "k", a.k), Show(visit, "lse", a.lse), Show(visit, "heads", a.heads);
  Show(visit, "rows", a.rows);
}
void WeightsOutputs(Arrays& a, const Visit& visit) { Show(visit, "weights", a.weights); }
void RunWeights(Arrays& a) {
  SerialExecutor serial;
  Workspace workspace;
  Weights<double>(a.attention, a.q, a.k, a.lse, a.heads, a.rows, a.weights, workspace, serial);
}

std::vector<Call> Calls() {
  std::vector<Call> calls;
  for (Arrays::Order order : {Arrays::Order::kLists, Arrays::Order::kPrefix, Arrays::Order::kPacked}) {
    calls.push_back({"forward", order, ForwardInputs, ForwardOutputs, RunForward});
    calls.push_back({"backward", order, BackwardInputs, BackwardOutputs, RunBackward});
    if (order != Arrays::Order::kPacked) calls.push_back({"weights", order, WeightsInputs, WeightsOutputs, RunWeights});
  }
  return calls;
}

// Everything that a call reads, by name and where its view keeps the address.
std::vector<std::pair<std::string, void**>> AllInputs(const Call& call, Arrays& arrays) {
  std::vector<std::pair<std::string, void**>> all;
  const Visit keep = [&](const char* name, void** data) { all.emplace_back(name, data); };
  call.inputs(arrays, keep);
  position::ForEachArray(arrays.attention, [&](const char* name, auto& view) { Show(keep, name, view); });
  return all;
}

// Expects the call to be refused in a message that names both.
void ExpectRefusal(const Call& call, Arrays& arrays, const std::string& output, const std::string& other) {
  try {
    call.run(arrays);
    ADD_FAILURE() << call.name << ": " << output << " on " << other << " is accepted";
  } catch (const InvalidArgument& error) {
    const std::string text = error.what();
    EXPECT_TRUE(text.find(output) != std::string::npos && text.find(other) != std::string::npos) << text;
  }
}

TEST(Overlap, IsRefusedForEveryPairOfArrays) {
  for (const Call& call : Calls()) {
    Arrays plain(call.order);
    EXPECT_NO_THROW(call.run(plain)) << call.name;
    std::size_t inputs = AllInputs(call, plain).size(), outputs = 0;
    call.outputs(plain, [&](const char*, void**) { ++outputs; });
    for (std::size_t o = 0; o < outputs; ++o)
      for (std::size_t x = 0; x < inputs + outputs; ++x) {
        if (x == inputs + o) continue;
        Arrays arrays(call.order);
        auto all = AllInputs(call, arrays);
        call.outputs(arrays, [&](const char* name, void** data) { all.emplace_back(name, data); });
        *all[inputs + o].second = *all[x].second;
        ExpectRefusal(call, arrays, all[inputs + o].first, all[x].first);
      }
  }
}

// What rounding takes from narrow outputs has elements of a type of its own, whatever theirs is.
TEST(Overlap, OfARemainderIsRefused) {
  SerialExecutor serial;
  Workspace workspace;
  const std::array<int64_t, 4> shape{1, 2, 5, 4};
  std::vector<Float16> memory(9 * 64);
  std::vector<float> numbers(64);
  std::array<View<Float16, 4>, 8> arrays;  // q, k, v, out, d_out, d_q, d_k, d_v
  for (std::size_t x = 0; x < arrays.size(); ++x) arrays[x] = View<Float16, 4>::Contiguous(memory.data() + 64 * x, shape);
  const auto lse = View<float, 3>::Contiguous(numbers.data(), {1, 2, 5});
  const auto at = [&](void* address) { return View<BFloat16, 4>::Contiguous(static_cast<BFloat16*>(address), shape); };
  const auto forward = [&](void* address) {
    Forward<Float16>({}, arrays[0], arrays[1], arrays[2], arrays[3], lse, workspace, serial, {}, at(address));
  };
  const auto backward = [&](void* address) {
    Backward<Float16>({}, arrays[0], arrays[1], arrays[2], arrays[3], lse, arrays[4], arrays[5], arrays[6], arrays[7], {},
                      workspace, serial, {}, at(address));
  };
  EXPECT_NO_THROW(forward(memory.data() + std::size_t{8} * 64));
  EXPECT_NO_THROW(backward(memory.data() + std::size_t{8} * 64));
  for (std::size_t x : {0, 1, 2, 3}) EXPECT_THROW(forward(arrays[x].data), InvalidArgument) << x;
  EXPECT_THROW(forward(numbers.data()), InvalidArgument);
  for (std::size_t x : {5, 6, 7}) EXPECT_THROW(backward(arrays[x].data), InvalidArgument) << x;
}

// By the last byte of one and the first of the other.
TEST(Overlap, OfOneByteIsRefusedAndNoneIsNot) {
  const Call call = Calls().front();
  for (std::size_t x = 0; x < 3; ++x) {
    Arrays arrays(call.order);
    auto all = AllInputs(call, arrays);
    auto* const input = static_cast<double*>(*all[x].second);
    const int64_t size = kBatch * kHeads * kTokens * kWidth;
    for (const int64_t start : {size - 1, 1 - size}) {
      arrays.out.data = input + start;
      // One step further out it would lie in the neighbour's room, which is empty.
      ExpectRefusal(call, arrays, "out", all[x].first);
    }
    arrays.out.data = input + size;
    EXPECT_NO_THROW(call.run(arrays));
  }
}

TEST(Overlap, OfAnOutputWithItselfIsRefused) {
  for (const Call& call : Calls()) {
    Arrays first(call.order);
    std::size_t outputs = 0;
    call.outputs(first, [&](const char*, void**) { ++outputs; });
    const auto collapse = [&](auto&... views) {
      const auto one = [&](auto& view) {
        const auto kept = view.stride;
        for (std::size_t r = 0; r < view.stride.size(); ++r) {
          if (view.extent[r] == 1) continue;
          view.stride[r] = 0;
          EXPECT_THROW(call.run(first), InvalidArgument) << call.name << ", dimension " << r;
          view.stride = kept;
        }
      };
      (one(views), ...);
    };
    if (call.name == std::string("forward")) {
      auto& s = first.statistics;
      collapse(first.out, first.lse, s.entropy, s.max_weight, s.mean_distance);
    } else if (call.name == std::string("backward")) {
      collapse(first.d_q, first.d_k, first.d_v);
      position::ForEachSchemeGradient(first.attention, first.d_biases, [&](const char*, auto& gradient, const auto* table) {
        if (table) collapse(gradient);
      });
    } else {
      collapse(first.weights);
    }
  }
}

// Gradients of a projection that makes queries, keys and values at once, statistics side by side: nothing is shared.
TEST(Overlap, OfSpansWithoutSharedElementsIsAccepted) {
  Arrays arrays(Arrays::Order::kLists);
  std::vector<double> projected(3 * kBatch * kTokens * kHeads * kWidth), numbers(4 * kBatch * kHeads * kTokens);
  int64_t part = 0;
  for (auto* view : {&arrays.d_q, &arrays.d_k, &arrays.d_v})
    *view = {projected.data() + part++ * kHeads * kWidth,
             {kBatch, kHeads, kTokens, kWidth},
             {3 * kTokens * kHeads * kWidth, kWidth, 3 * kHeads * kWidth, 1}};
  part = 0;
  for (auto* view : {&arrays.statistics.entropy, &arrays.statistics.max_weight, &arrays.statistics.mean_distance, &arrays.lse})
    *view = {numbers.data() + part++, {kBatch, kHeads, kTokens}, {4 * kHeads * kTokens, 4 * kTokens, 4}};
  EXPECT_NO_THROW(RunForward(arrays));
  EXPECT_NO_THROW(RunBackward(arrays));
  arrays.d_k.data += 1;
  EXPECT_THROW(RunBackward(arrays), InvalidArgument);
}

// Against a list of all bytes, for small arrays of any strides.
TEST(Overlap, IsFoundExactlyWhereBytesAreShared) {
  std::mt19937_64 random(1);
  int shared = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    std::vector<int> bytes(4096);
    const auto make = [&] {
      View<int16_t, 4> view{reinterpret_cast<int16_t*>(bytes.data()) + 4000, {}, {}};
      for (std::size_t r = 0; r < 4; ++r) {
        view.extent[r] = static_cast<int64_t>(random() % 4 + (random() % 8 != 0));
        view.stride[r] = static_cast<int64_t>(random() % (random() % 2 ? 5 : 120)) * (random() % 3 ? 1 : -1);
      }
      view.data += static_cast<int64_t>(random() % 40);
      return view;
    };
    const auto visit = [](const View<int16_t, 4>& view, auto&& each) {
      for (int64_t a = 0; a < view.extent[0]; ++a)
        for (int64_t b = 0; b < view.extent[1]; ++b)
          for (int64_t c = 0; c < view.extent[2]; ++c)
            for (int64_t d = 0; d < view.extent[3]; ++d) each(&view(a, b, c, d) - view.data);
    };
    const View<int16_t, 4> x = make(), y = make();
    std::vector<bool> seen(20000);
    bool expected = false;
    visit(x, [&](int64_t at) { seen[static_cast<std::size_t>(at + 10000)] = true; });
    visit(y, [&](int64_t at) { expected |= seen[static_cast<std::size_t>(at + (y.data - x.data) + 10000)]; });
    ASSERT_EQ(core::Share(core::RegionOf("x", x), core::RegionOf("y", y)), expected) << "trial " << trial;
    shared += expected ? 1 : 0;
  }
  EXPECT_GT(shared, 2000);
  EXPECT_LT(shared, 18000);
}

// A mask of bytes beside every second of some doubles.
TEST(Overlap, OfElementsOfTwoSizesIsFoundToTheByte) {
  std::array<double, 8> memory{};
  const View<double, 4> doubles{memory.data() + 1, {1, 1, 1, 3}, {0, 0, 0, 2}};
  for (int64_t at = 0; at < 64; ++at) {
    const View<bool, 4> mask{reinterpret_cast<bool*>(memory.data()) + at, {1, 1, 1, 1}, {0, 0, 0, 1}};
    const bool expected = at / 8 % 2 == 1 && at / 8 <= 5;
    EXPECT_EQ(core::Share(core::RegionOf("doubles", doubles), core::RegionOf("mask", mask)), expected) << at;
    EXPECT_EQ(core::Share(core::RegionOf("mask", mask), core::RegionOf("doubles", doubles)), expected) << at;
  }
}

// Any layout is told apart or refused in a bounded number of steps.
TEST(Overlap, OfUnusualStridesEnds) {
  double one = 0;
  const View<double, 4> x{&one, {1 << 10, 1 << 10, 1 << 10, 1 << 10}, {1000003, 1000033, 1000037, 1000039}};
  const View<double, 4> y{&one + 1, {1 << 10, 1 << 10, 1 << 10, 1 << 10}, {999983, 999979, 999961, 999959}};
  EXPECT_TRUE(core::Share(core::RegionOf("x", x), core::RegionOf("y", y)));
}

TEST(Overlap, OfDroppedElementsIsAllOrNothing) {
  SerialExecutor serial;
  std::vector<float> memory(300, 1.0F);
  const Dropout dropout{0.5, 1, 0};
  EXPECT_NO_THROW(DropElements(dropout, memory.data(), memory.data(), 100, serial));
  EXPECT_NO_THROW(DropElements(dropout, memory.data(), memory.data() + 100, 100, serial));
  for (int64_t start : {1, 50, 99}) {
    EXPECT_THROW(DropElements(dropout, memory.data(), memory.data() + start, 100, serial), InvalidArgument);
    EXPECT_THROW(DropElements(dropout, memory.data() + start, memory.data(), 100, serial), InvalidArgument);
  }
}

TEST(Overlap, OfACacheWithWhatItHoldsIsRefused) {
  SerialExecutor serial;
  Workspace workspace;
  KeyValueCache<float> cache(1, 1, 4, 4, 8);
  std::vector<float> memory(64, 1.0F);
  const auto tokens = View<const float, 4>::Contiguous(memory.data(), {1, 1, 2, 4});
  cache.Append(tokens, tokens);
  EXPECT_THROW(cache.Append(cache.Keys(), tokens), InvalidArgument);
  EXPECT_THROW(cache.Append(tokens, cache.Keys()), InvalidArgument);
  EXPECT_THROW(cache.Append(cache.Values(), tokens), InvalidArgument);
  EXPECT_EQ(cache.length(), 2);
  for (const auto& held : {cache.Keys(), cache.Values()}) {
    const View<float, 4> out{const_cast<float*>(held.data), {1, 1, 1, 4}, {4, 4, 4, 1}};
    const auto q = View<const float, 4>::Contiguous(memory.data(), {1, 1, 1, 4});
    EXPECT_THROW(cache.Attend({}, q, out, {}, workspace, serial), InvalidArgument);
  }
}

}  // namespace
}  // namespace heed
