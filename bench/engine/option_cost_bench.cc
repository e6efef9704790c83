// What each option costs beside the plain call, forward plus backward, interleaved in one run on one thread.
//   option_cost_bench [LENGTH] [WIDTH]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "heed/attention.h"
#include "reference/fma_peak.h"

namespace {

using heed::Attention;
using heed::View;

constexpr int64_t kHeads = 4;

// One call's arrays in elements T, all random.
template <class T>
class Call {
 public:
  Call(int64_t length, int64_t width)
      : length_(length), width_(width), lse_(static_cast<size_t>(kHeads * length)), rows_(3 * lse_.size()) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (auto& array : arrays_) {
      array.resize(static_cast<size_t>(kHeads * length * width));
      for (T& x : array) {
        if constexpr (std::is_same_v<T, float>) {
          x = normal(random);
        } else {
          x = heed::ToBFloat16(normal(random));
        }
      }
    }
  }

  void Run(const Attention& attention, const heed::BiasGradients<float>& d_biases, bool statistics) {
    heed::Statistics<float> wanted;
    if (statistics) wanted = {Rows(0), Rows(1), Rows(2)};
    const auto lse = View<float, 3>::Contiguous(lse_.data(), {1, kHeads, length_});
    heed::Forward(attention, At(0), At(1), At(2), At(3), lse, workspace_, serial_, wanted);
    heed::Backward(attention, At(0), At(1), At(2), At(3), lse, At(4), At(5), At(6), At(7), d_biases, workspace_, serial_);
  }

 private:
  View<T, 4> At(int a) { return View<T, 4>::Contiguous(arrays_[static_cast<size_t>(a)].data(), {1, kHeads, length_, width_}); }
  View<float, 3> Rows(int a) { return View<float, 3>::Contiguous(rows_.data() + a * kHeads * length_, {1, kHeads, length_}); }

  int64_t length_, width_;
  std::array<std::vector<T>, 8> arrays_;
  std::vector<float> lse_, rows_;
  heed::Workspace workspace_;
  heed::SerialExecutor serial_;
};

struct Option {
  std::string name;
  std::function<void()> run;
  std::vector<double> seconds = {};
};

// Tables that the options point to, and their gradients.
struct Tables {
  std::vector<float> values, gradients;
  std::unique_ptr<bool[]> mask;
  std::vector<int64_t> positions;

  explicit Tables(int64_t length)
      : values(static_cast<size_t>(length * length), 0.01F),
        gradients(values.size()),
        mask(std::make_unique<bool[]>(values.size())) {
    std::fill_n(mask.get(), values.size(), true);
    for (int64_t t = 0; t < length; ++t) positions.push_back(t);
  }
  template <int Rank>
  View<const float, Rank> Table(const std::array<int64_t, Rank>& extent) {
    return View<const float, Rank>::Contiguous(values.data(), extent);
  }
  template <int Rank>
  View<float, Rank> Gradient(const std::array<int64_t, Rank>& extent, int64_t from = 0) {
    return View<float, Rank>::Contiguous(gradients.data() + from, extent);
  }
};

std::vector<Option> MakeOptions(Call<float>& call, Call<heed::BFloat16>& narrow, Tables& tables, int64_t length,
                                int64_t width) {
  std::vector<Option> options;
  const auto add = [&](const char* name, Attention attention, heed::BiasGradients<float> gradients = {},
                       bool statistics = false) {
    options.push_back({name, [=, &call] { call.Run(attention, gradients, statistics); }});
  };
  const auto with = [](const auto& set) {
    Attention attention;
    set(attention);
    return attention;
  };
  add("plain", {});
  options.push_back({"bfloat16", [&narrow] { narrow.Run({}, {}, false); }});
  add("dropout", with([](Attention& a) { a.dropout.probability = 0.1; }));
  heed::BiasGradients<float> d;
  d.relative_bias = tables.Gradient<2>({kHeads, 2 * length - 1});
  add("relative bias", with([&](Attention& a) {
        a.relative_bias = heed::RelativeBias{tables.Table<2>({kHeads, 2 * length - 1})};
      }),
      d);
  d = {};
  d.slopes = tables.Gradient<1>({kHeads});
  add("slopes", with([&](Attention& a) { a.slope_bias = heed::SlopeBias{tables.Table<1>({kHeads}), true}; }), d);
  d = {};
  d.content_keys = tables.Gradient<2>({33, width});
  d.content_values = tables.Gradient<2>({33, width}, 33 * width);
  add("content, 33 offsets", with([&](Attention& a) {
        a.content_bias.emplace();
        a.content_bias->keys = tables.Table<2>({33, width});
        a.content_bias->values = tables.Table<2>({33, width});
      }),
      d);
  d = {};
  d.content_queries = tables.Gradient<2>({33, width});
  add("content queries, 33 offsets", with([&](Attention& a) {
        a.content_bias.emplace();
        a.content_bias->queries = tables.Table<2>({33, width});
      }),
      d);
  add("soft-cap", with([](Attention& a) { a.softcap = 30.0; }));
  add("statistics", {}, {}, true);
  add("dense mask", with([&](Attention& a) {
        a.mask = heed::Mask{View<const bool, 4>::Contiguous(tables.mask.get(), {1, 1, length, length})};
      }));
  d = {};
  d.bias = tables.Gradient<4>({1, 1, length, length});
  add("dense bias", with([&](Attention& a) { a.bias = heed::Bias{tables.Table<4>({1, 1, length, length})}; }), d);
  add("listed positions, causal", with([&](Attention& a) {
        a.causal = heed::Causal::kBottomRight;
        a.query_positions.list = View<const int64_t, 2>::Contiguous(tables.positions.data(), {1, length});
        a.key_positions.list = View<const int64_t, 2>::Contiguous(tables.positions.data(), {1, length});
      }));
  add("causal", with([](Attention& a) { a.causal = heed::Causal::kBottomRight; }));
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t length = argc > 1 ? std::atoll(argv[1]) : 1024, width = argc > 2 ? std::atoll(argv[2]) : 64;
  Call<float> call(length, width);
  Call<heed::BFloat16> narrow(length, width);
  Tables tables(length);
  std::vector<Option> options = MakeOptions(call, narrow, tables, length, width);
  using Clock = std::chrono::steady_clock;
  for (int round = 0; round < 15; ++round)
    for (Option& option : options) {
      const auto start = Clock::now();
      option.run();
      option.seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    }
  for (Option& option : options) std::sort(option.seconds.begin(), option.seconds.end());
  const double plain = options.front().seconds.front();
  std::printf("%s, n %ld, d %ld, %ld heads, forward plus backward, FMA peak %.1f GFLOP/s\n",
              heed::SupportedTargets()[0].c_str(), static_cast<long>(length), static_cast<long>(width),
              static_cast<long>(kHeads), heed::reference::FmaPeak(4) * 1e-9);
  for (const Option& option : options)
    std::printf("%-26s min %8.3f ms  median %8.3f ms  over plain %+6.1f %%\n", option.name.c_str(),
                option.seconds.front() * 1e3, option.seconds[option.seconds.size() / 2] * 1e3,
                100 * (option.seconds.front() / plain - 1));
  return 0;
}
