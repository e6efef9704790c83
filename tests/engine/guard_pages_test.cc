// No call touches memory outside the elements of its arrays, nor writes between them: every case of the table and random ones,
// every type, on every target, with pages without access before and behind each array.
#include <gtest/gtest.h>

#include <list>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "guarded_memory.h"
#include "heed/attention.h"
#include "heed/cache.h"
#include "heed/dropout.h"
#include "heed/rotary.h"
#include "position/scheme_set.h"
#include "reference/random_cases.h"
#include "reference/trial_arrays.h"
#include "reference/trial_setup.h"
#include "targets.h"

namespace heed {
namespace {

using reference::Case;
using reference::Role;

// The views of the calls that a case makes.
template <class T>
struct Views {
  using A = Accum<T>;
  Attention attention;
  View<const T, 4> q, k, v, d_out;
  View<const A, 3> d_lse;
  std::array<View<const A, 3>, 3> d_statistics;
  View<int64_t, 3> largest_key;
  View<const int64_t, 1> heads, rows;
  View<T, 4> out, d_q, d_k, d_v;
  View<A, 3> lse, correction;
  Statistics<A> statistics;
  BiasGradients<A> d_biases;
  View<A, 4> weights;
  View<BFloat16, 4> remainder;

  template <class Visit>
  void ForEachInput(const Visit& visit) {
    position::ForEachArray(attention, [&](const char*, auto& view) { visit(view); });
    visit(q), visit(k), visit(v), visit(d_out), visit(d_lse), visit(heads), visit(rows);
    for (auto& view : d_statistics) visit(view);
  }
  template <class Visit>
  void ForEachOutput(const Visit& visit) {
    visit(out), visit(d_q), visit(d_k), visit(d_v), visit(lse), visit(correction), visit(weights), visit(remainder);
    auto& [entropy, max_weight, mean_distance] = statistics;
    visit(entropy), visit(max_weight), visit(mean_distance), visit(largest_key);
    position::ForEachSchemeGradient(attention, d_biases, [&](const char*, auto& gradient, const auto*) { visit(gradient); });
  }

  void Run(Workspace& workspace, Executor& executor) const {
    Forward<T>(attention, q, k, v, out, lse, workspace, executor, statistics, remainder, correction, largest_key);
    if (weights.present()) Weights<T>(attention, q, k, lse, heads, rows, weights, workspace, executor);
    const StatisticGradients<A> gradients{.entropy = statistics.entropy,
                                          .max_weight = statistics.max_weight,
                                          .mean_distance = statistics.mean_distance,
                                          .largest_key = largest_key,
                                          .d_entropy = d_statistics[0],
                                          .d_max_weight = d_statistics[1],
                                          .d_mean_distance = d_statistics[2]};
    Backward<T>(attention, q, k, v, out, lse, d_out, d_q, d_k, d_v, d_biases, workspace, executor, d_lse, remainder, correction,
                gradients);
  }

  // The bytes of all results.
  std::vector<std::byte> Results() {
    std::vector<std::byte> bytes;
    ForEachOutput([&](const auto& view) {
      std::size_t at = bytes.size();
      bytes.resize(at + static_cast<std::size_t>(view.present() ? view.size() : 0) * sizeof(*view.data));
      ForEachElement(core::RegionOf("", view), [&](const std::byte* element) {
        std::memcpy(bytes.data() + at, element, sizeof(*view.data));
        at += sizeof(*view.data);
      });
    });
    return bytes;
  }
};

// The memory of a case and the views of it, with everything that it may ask for.
template <class T>
class CaseArrays {
  using A = Accum<T>;

 public:
  explicit CaseArrays(const Case& c)
      : setup_(c, 1, random_),
        q_(reference::MakeInput<T>(setup_.QueryExtent(c.shape.head_dim), c.layout, Role::kInput, random_)),
        k_(reference::MakeInput<T>(setup_.KeyExtent(c.shape.head_dim), c.layout, Role::kKeyInput, random_)),
        v_(reference::MakeInput<T>(setup_.KeyExtent(c.shape.value_dim), c.layout, Role::kKeyInput, random_)),
        d_out_(reference::MakeInput<T>(setup_.QueryExtent(c.shape.value_dim), c.layout, Role::kInput, random_)) {
    views.attention = setup_.attention;
    views.q = q_.view, views.k = k_.view, views.v = v_.view, views.d_out = d_out_.view;
    views.out = Like(views.d_out, c.layout), views.d_q = Like(views.q, c.layout);
    views.d_k = Like(views.k, c.layout), views.d_v = Like(views.v, c.layout);
    const std::array<int64_t, 3> rows{views.q.extent[0], views.q.extent[1], views.q.extent[2]};
    views.lse = Take(rows);
    if (c.statistics) views.statistics = {Take(rows), Take(rows), Take(rows)};
    if (c.statistics)
      views.largest_key = View<int64_t, 3>::Contiguous(
          indices_.emplace_back(static_cast<std::size_t>(rows[0] * rows[1] * rows[2]) + 1).data(), rows);
    if (c.lse_gradient) views.d_lse = Take(rows);
    for (auto& view : views.d_statistics)
      if (c.statistic_gradients) view = Take(rows);
    if (c.correction) views.correction = Take(rows);
    if (c.weights) {
      views.heads = Count(rows[1]), views.rows = Count(rows[2]);
      views.weights = Take(std::array{rows[0], rows[1], rows[2], views.k.extent[2]});
    }
    // Where rounding leaves one.
    if (sizeof(T) == 2) views.remainder = remainders_.emplace_back(views.out.extent, c.layout, random_).view;
    AddBiasGradients();
  }

  Views<T> views;

 private:
  View<T, 4> Like(const View<const T, 4>& view, reference::Layout layout) {
    return outputs_.emplace_back(view.extent, layout, random_).view;
  }
  template <std::size_t Rank>
  View<A, static_cast<int>(Rank)> Take(const std::array<int64_t, Rank>& extent) {
    auto& memory = numbers_.emplace_back();
    const auto view = memory.Make(extent);
    std::fill(memory.memory.begin(), memory.memory.end(), A{1});
    return view;
  }
  View<const int64_t, 1> Count(int64_t count) {
    auto& memory = indices_.emplace_back(static_cast<std::size_t>(count) + 1);
    std::iota(memory.begin(), memory.end(), int64_t{0});
    return View<const int64_t, 1>::Contiguous(memory.data(), {count});
  }
  void AddBiasGradients() {
    position::ForEachSchemeGradient(views.attention, views.d_biases, [&](const char*, auto& gradient, const auto* table) {
      if (table) std::visit([&](const auto& t) { gradient = Take(t.extent); }, *table);
    });
  }

  std::mt19937_64 random_{1};
  reference::Setup<A> setup_;
  reference::Input<T> q_, k_, v_, d_out_;
  std::list<reference::Output<T>> outputs_;
  std::list<reference::Output<BFloat16>> remainders_;
  std::list<reference::Numbers<A>> numbers_;
  std::list<std::vector<int64_t>> indices_;
};

TEST(GuardedMemory, StopsAccessOneElementOutside) {
  const std::vector<float> ones(100, 1.0F);
  auto view = View<const float, 1>::Contiguous(ones.data(), {100});
  GuardedMemory before(Side::kBegin), behind(Side::kEnd);
  before.Adopt(view);
  EXPECT_EQ(view.data[0] + view.data[99], 2.0F);
  EXPECT_DEATH(static_cast<void>(static_cast<volatile const float*>(view.data)[-1]), "");
  behind.Adopt(view);
  EXPECT_EQ(view.data[0] + view.data[99], 2.0F);
  EXPECT_DEATH(static_cast<void>(static_cast<volatile const float*>(view.data)[100]), "");
  auto none = View<const float, 1>::Contiguous(ones.data(), {0});
  before.Adopt(none);
  EXPECT_DEATH(static_cast<void>(static_cast<volatile const float*>(none.data)[0]), "");
}

class GuardPages : public OnTarget {
 protected:
  template <class T>
  void Check(const Case& c, const char* type) {
    const std::string name = c.name + ", " + type + ", " + GetParam();
    const CrashNote note(name);
    CaseArrays<T> arrays(c);
    arrays.views.Run(workspace_, serial_);
    const std::vector<std::byte> expected = arrays.views.Results();
    for (GuardedMemory* memory : {&before_, &behind_}) {
      Views<T> guarded = arrays.views;
      const auto adopt = [&](auto& view) {
        if (view.present()) memory->Adopt(view);
      };
      guarded.ForEachInput(adopt);
      guarded.ForEachOutput(adopt);
      guarded.Run(workspace_, serial_);
      EXPECT_EQ(guarded.Results(), expected) << name << ": what lies between elements was read";
      EXPECT_TRUE(memory->GapsAreUntouched()) << name << ": what lies between elements was written";
      memory->Clear();
    }
  }

  void CheckTypes(const Case& c) {
    Check<float>(c, "float32");
    Check<double>(c, "float64");
    Check<BFloat16>(c, "bfloat16");
    Check<BFloat16>(reference::Fused(c), "bfloat16");
    Check<Float16>(c, "float16");
  }

  GuardedMemory before_{Side::kBegin}, behind_{Side::kEnd};
  SerialExecutor serial_;
  Workspace workspace_;
};

TEST_P(GuardPages, AreNeverTouchedByCasesOfTheTable) {
  Turn turn;
  for (const Case& c : reference::Cases()) {
    turn.Of([&] { Check<float>(c, "float32"); }, [&] { Check<double>(c, "float64"); }, [&] { Check<BFloat16>(c, "bfloat16"); },
            [&] { Check<BFloat16>(reference::Fused(c), "bfloat16"); }, [&] { Check<Float16>(c, "float16"); });
  }
}

TEST_P(GuardPages, AreNeverTouchedByRandomCases) {
  for (uint64_t seed = 0; seed < 60; ++seed)
    for (const Case& c : reference::RandomCases(seed)) CheckTypes(c);
}

// Every option by itself: one that is new is in the list.
TEST_P(GuardPages, AreNeverTouchedByAnyOption) {
  for (const reference::Option& option : reference::Options())
    for (uint64_t seed = 1; seed < 3; ++seed) CheckTypes(reference::PairCase(option, option, seed));
}

TEST_P(GuardPages, AreNeverTouchedByCaches) {
  const CrashNote note("cache, " + GetParam());
  for (GuardedMemory* memory : {&before_, &behind_}) {
    CaseArrays<BFloat16> arrays(*reference::NamedCase("causal, more keys"));
    Views<BFloat16> views = arrays.views;
    for (auto* view : {&views.q, &views.k, &views.v}) memory->Adopt(*view);
    memory->Adopt(views.out);
    memory->Adopt(views.lse);
    KeyValueCache<BFloat16> cache(views.k.extent[0], views.k.extent[1], views.k.extent[3], views.v.extent[3], 7);
    for (int64_t t = 0; t < views.k.extent[2]; t += 9) {
      auto k = views.k, v = views.v;
      k.data += t * k.stride[2], v.data += t * v.stride[2];
      k.extent[2] = v.extent[2] = std::min<int64_t>(9, views.k.extent[2] - t);
      cache.Append(k, v);
    }
    cache.Attend(views.attention, views.q, views.out, views.lse, workspace_, serial_);
    memory->Clear();
  }
}

template <class T>
void DropGuarded(GuardedMemory& memory, int64_t count, Executor& executor) {
  const std::vector<T> ones(static_cast<std::size_t>(count), T{1});
  auto x = View<const T, 1>::Contiguous(ones.data(), {count});
  std::vector<T> results(ones.size());
  auto y = View<T, 1>::Contiguous(results.data(), {count});
  memory.Adopt(x);
  memory.Adopt(y);
  DropElements({0.5, 1, 0}, x.data, y.data, count, executor);
  memory.Clear();
}

TEST_P(GuardPages, AreNeverTouchedByDroppedElements) {
  const CrashNote note("dropped elements, " + GetParam());
  for (GuardedMemory* memory : {&before_, &behind_})
    for (int64_t count : {0, 1, 15, 16, 127, 128, 129, 1000, 32768 + 5}) {
      DropGuarded<float>(*memory, count, serial_);
      DropGuarded<double>(*memory, count, serial_);
    }
}

TEST_P(GuardPages, AreNeverTouchedByRotations) {
  const CrashNote note("rotation, " + GetParam());
  for (GuardedMemory* memory : {&before_, &behind_})
    for (RotaryLayout layout : {RotaryLayout::kHalf, RotaryLayout::kInterleaved})
      for (const char* name : {"odd widths", "backwards", "spread elements", "random strides", "no queries"}) {
        CaseArrays<float> arrays(*reference::NamedCase(name));
        Views<float>& views = arrays.views;
        const int64_t steps = views.q.extent[2], pairs = views.q.extent[3] / 2;
        RotaryFrequencies frequencies;
        frequencies.values.assign(static_cast<std::size_t>(pairs), 0.1);
        std::vector<float> table(static_cast<std::size_t>(steps * pairs) + 1);
        auto cos = View<float, 2>::Contiguous(table.data(), {steps, pairs}), sin = cos;
        for (auto* view : {&cos, &sin}) memory->Adopt(*view);
        memory->Adopt(views.q);
        memory->Adopt(views.d_q);
        RotaryTable(frequencies, 3, cos, sin);
        const auto rows = [&](const View<float, 2>& t) {
          return View<const float, 3>{t.data, {1, steps, pairs}, {0, pairs, 1}};
        };
        ApplyRotary({layout, false}, views.q, rows(cos), rows(sin), views.d_q, serial_);
        EXPECT_TRUE(memory->GapsAreUntouched()) << name;
        memory->Clear();
      }
}

HEED_IN_TURN_ON_TARGETS(GuardPages);

}  // namespace
}  // namespace heed
