// What each option costs beside the plain call, forward plus backward, interleaved in one run on one thread.
//   option_cost_bench [LENGTH] [WIDTH] [ROWS]
// ROWS: names of rows to run beside the plain one, with commas between them; all of them without.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <list>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "heed/attention.h"
#include "reference/case_table.h"
#include "reference/peaks.h"
#include "reference/random_tables.h"
#include "reference/schemes.h"
#include "reference/table_gradients.h"
#include "reference/trial_arrays.h"

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
      for (T& x : array) x = heed::reference::Rounded<T>(normal(random));
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

struct Row {
  std::string name;
  std::function<void()> run;
  std::vector<double> seconds = {};
};

// What a scheme wants timed: its option with small numbers, and all gradients of it.
class SchemeOption {
 public:
  SchemeOption(const heed::reference::Cost& cost, const heed::Shape& shape) : attention_(Make(cost, shape)), d_(attention_) {}

  const Attention& attention() const { return attention_; }
  const heed::BiasGradients<float>& gradients() const { return d_.views; }

 private:
  Attention Make(const heed::reference::Cost& cost, const heed::Shape& shape) {
    heed::reference::Case c;
    c.shape = shape;
    cost.set(c);
    Attention attention;
    heed::reference::Random random(1);
    heed::reference::ForEachScheme([&]<class Scheme>() {
      heed::reference::RandomTables<float> tables(c.layout, random, memory_, 0.01);
      Scheme::Fill(c, shape, tables, attention);
    });
    return attention;
  }

  heed::reference::TableMemory<float> memory_;
  Attention attention_;
  heed::reference::TableGradients<float> d_;
};

// What the other options point to.
struct Arrays {
  std::unique_ptr<bool[]> mask;
  std::vector<int64_t> positions;

  explicit Arrays(int64_t length) : mask(std::make_unique<bool[]>(static_cast<size_t>(length * length))) {
    std::fill_n(mask.get(), length * length, true);
    for (int64_t t = 0; t < length; ++t) positions.push_back(t);
  }
};

// All but the plain one.
std::vector<Row> MakeRows(Call<float>& call, Call<heed::BFloat16>& narrow, Arrays& arrays, int64_t length, int64_t width) {
  std::vector<Row> rows;
  const auto add = [&](const char* name, const auto& set, bool statistics = false) {
    Attention attention;
    set(attention);
    rows.push_back({name, [=, &call] { call.Run(attention, {}, statistics); }});
  };
  rows.push_back({"bfloat16", [&narrow] { narrow.Run({}, {}, false); }});
  add("dropout", [](Attention& a) { a.dropout.probability = 0.1; });
  std::vector<heed::reference::Cost> costs;
  heed::reference::ForEachScheme([&]<class Scheme>() { Scheme::AddCosts(costs); });
  for (const heed::reference::Cost& cost : costs) {
    const auto option = std::make_shared<SchemeOption>(cost, heed::Shape{1, kHeads, kHeads, length, length, width, width});
    rows.push_back({cost.name, [option, &call] { call.Run(option->attention(), option->gradients(), false); }});
  }
  add("soft-cap", [](Attention& a) { a.softcap = 30.0; });
  add(
      "statistics", [](Attention&) {}, true);
  add("dense mask", [&](Attention& a) {
    a.mask = heed::Mask{View<const bool, 4>::Contiguous(arrays.mask.get(), {1, 1, length, length})};
  });
  add("listed positions, causal", [&](Attention& a) {
    a.causal = heed::Causal::kBottomRight;
    a.query_positions.list = View<const int64_t, 2>::Contiguous(arrays.positions.data(), {1, length});
    a.key_positions.list = View<const int64_t, 2>::Contiguous(arrays.positions.data(), {1, length});
  });
  add("causal", [](Attention& a) { a.causal = heed::Causal::kBottomRight; });
  return rows;
}

// Keeps the rows of a list, whose names may have commas of their own. False where it has others.
bool Choose(std::string list, std::vector<Row>& rows) {
  list = "," + list + ",";
  std::erase_if(rows, [&](const Row& row) {
    const size_t at = list.find("," + row.name + ",");
    if (at != std::string::npos) list.erase(at, row.name.size() + 1);
    return at == std::string::npos;
  });
  return list == ",";
}

// Row by row, again and again, so that all see the same state of the machine; times in ascending order.
void Time(std::vector<Row>& rows) {
  using Clock = std::chrono::steady_clock;
  for (int round = 0; round < 15; ++round)
    for (Row& row : rows) {
      const auto start = Clock::now();
      row.run();
      row.seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    }
  for (Row& row : rows) std::sort(row.seconds.begin(), row.seconds.end());
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int i, int64_t otherwise) { return argc > i ? std::strtol(argv[i], nullptr, 10) : otherwise; };
  const int64_t length = number(1, 1024), width = number(2, 64);
  Call<float> call(length, width);
  Call<heed::BFloat16> narrow(length, width);
  Arrays arrays(length);
  std::vector<Row> rows = MakeRows(call, narrow, arrays, length, width);
  if (argc > 3 && !Choose(argv[3], rows)) {
    std::fprintf(stderr, "option_cost_bench: not all of these are rows: %s\n", argv[3]);
    return 2;
  }
  rows.insert(rows.begin(), {"plain", [&call] { call.Run({}, {}, false); }});
  Time(rows);
  const double plain = rows.front().seconds.front();
  std::printf("%s, n %ld, d %ld, %ld heads, forward plus backward, FMA peak %.1f GFLOP/s\n",
              heed::SupportedTargets()[0].c_str(), static_cast<long>(length), static_cast<long>(width),
              static_cast<long>(kHeads), heed::reference::FmaPeak(4) * 1e-9);
  for (const Row& row : rows)
    std::printf("%-26s min %8.3f ms  median %8.3f ms  over plain %+6.1f %%\n", row.name.c_str(), row.seconds.front() * 1e3,
                row.seconds[row.seconds.size() / 2] * 1e3, 100 * (row.seconds.front() / plain - 1));
  return 0;
}
