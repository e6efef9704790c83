// A row's bits are its own: at fixed extents nothing that a query may not see changes its output, its log-sum-exp, its
// statistics or its dQ. Everything else in a call's memory is replaced, by NaN and infinity among others: other queries and
// their gradients, hidden keys and values, other rows of masks, biases, lengths and positions.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "heed/attention.h"
#include "reference/cases.h"
#include "reference/formulas.h"
#include "reference/random_cases.h"
#include "reference/trial_arrays.h"
#include "reference/trial_setup.h"
#include "targets.h"

namespace heed {
namespace {

using reference::Case;
using reference::Formulas;
using Random = std::mt19937_64;

struct RowIndex {
  int64_t b, h, i;
};

template <class T>
class Call {
  using A = Accum<T>;

 public:
  Call(const Case& c, uint64_t seed)
      : random_(seed),
        case_(c),
        setup_(c, seed, random_),
        q_(Make(setup_.QueryExtent(c.shape.head_dim))),
        k_(Make(setup_.KeyExtent(c.shape.head_dim))),
        v_(Make(setup_.KeyExtent(c.shape.value_dim))),
        d_out_(Make(setup_.QueryExtent(c.shape.value_dim))) {}

  // The rows that there are.
  std::vector<RowIndex> Rows() const {
    std::vector<RowIndex> rows;
    const Formulas f = Definition();
    for (int64_t b = 0; b < f.batch(); ++b)
      for (int64_t h = 0; h < f.heads(); ++h)
        for (int64_t i = 0; i < f.QueryCount(b); ++i) rows.push_back({b, h, i});
    return rows;
  }

  // The bytes of everything that belongs to a row.
  std::string ResultsOf(const RowIndex& row) {
    Run();
    const int64_t at = Definition().QueryRow(row.b, row.h, row.i);
    std::string bytes;
    const auto append = [&](const auto& array, int64_t width) {
      const auto* first = array.memory.data() + at * width;
      bytes.append(reinterpret_cast<const char*>(first), static_cast<size_t>(width) * sizeof(*first));
    };
    append(out_, case_.shape.value_dim);
    append(lse_, 1);
    append(d_q_, case_.shape.head_dim);
    if (!case_.statistics) return bytes;
    append(entropy_, 1);
    append(max_weight_, 1);
    append(mean_distance_, 1);
    return bytes;
  }

  // Replaces what the row may not see.
  void Disturb(const RowIndex& row) {
    const Formulas f = Definition();
    DisturbDense(f, row);
    DisturbTokens(f, row);
    DisturbLists(row);
  }

 private:
  reference::Input<T> Make(const std::array<int64_t, 4>& extent) {
    return reference::MakeInput<T>(extent, reference::Layout::kContiguous, reference::Role::kInput, random_);
  }

  Formulas Definition() const { return Formulas(setup_.attention, q_.Doubles(), k_.Doubles(), v_.Doubles()); }

  void Run() {
    const auto make = [&](reference::Output<T>& output, const reference::Input<T>& like) {
      output = reference::Output<T>(like.view.extent, reference::Layout::kContiguous, random_);
      return output.view;
    };
    const std::array<int64_t, 3> rows{q_.view.extent[0], q_.view.extent[1], q_.view.extent[2]};
    Statistics<A> statistics;
    if (case_.statistics) statistics = {entropy_.Make(rows), max_weight_.Make(rows), mean_distance_.Make(rows)};
    const View<A, 3> lse = lse_.Make(rows);
    const View<T, 4> out = make(out_, d_out_);
    Workspace workspace;
    SerialExecutor serial;
    View<int64_t, 3> keys;
    StatisticGradients<A> gradients;
    if (case_.statistic_gradients) {
      keys = keys_.Make(rows);
      d_rows_.assign(lse_.memory.size(), static_cast<A>(0.5));
      const View<const A, 3> d = View<const A, 3>::Contiguous(d_rows_.data(), rows);
      gradients = {.entropy = statistics.entropy,
                   .max_weight = statistics.max_weight,
                   .mean_distance = statistics.mean_distance,
                   .largest_key = keys,
                   .d_entropy = d,
                   .d_max_weight = d,
                   .d_mean_distance = d};
    }
    Forward<T>(setup_.attention, q_.view, k_.view, v_.view, out, lse, workspace, serial, statistics, {}, {}, keys);
    Backward<T>(setup_.attention, q_.view, k_.view, v_.view, out, lse, d_out_.view, make(d_q_, q_), make(d_k_, k_),
                make(d_v_, v_), {}, workspace, serial, {}, {}, {}, gradients);
  }

  T Odd() {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const double choices[] = {std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity, 3e4, -3e4, 0.5};
    return reference::Rounded<T>(choices[random_() % std::size(choices)]);
  }

  void DisturbTokens(const Formulas& f, const RowIndex& row) {
    const auto replace = [&](reference::Input<T>& array, int64_t token) {
      const int64_t width = array.view.extent[3];
      for (int64_t c = 0; c < width; ++c) array.memory[static_cast<size_t>(token * width + c)] = Odd();
    };
    const int64_t own = f.QueryRow(row.b, row.h, row.i);
    for (int64_t t = 0; t < q_.view.extent[0] * q_.view.extent[1] * q_.view.extent[2]; ++t) {
      if (t == own) continue;
      replace(q_, t);
      replace(d_out_, t);
    }
    const int64_t keys = k_.view.extent[0] * k_.view.extent[1] * k_.view.extent[2];
    std::vector<bool> key_seen(static_cast<size_t>(keys)), value_seen(key_seen);
    const bool uniform = f.Uniform(row.b, row.h, row.i);
    for (int64_t j = 0; j < f.KeyCount(row.b) && !f.Padded(row.b, row.i); ++j) {
      const auto at = static_cast<size_t>(f.KeyRow(row.b, row.h, j));
      key_seen[at] = !uniform && f.Visible({row.b, row.h, row.i, j});
      value_seen[at] = uniform || key_seen[at];
    }
    for (int64_t t = 0; t < keys; ++t) {
      if (!key_seen[static_cast<size_t>(t)]) replace(k_, t);
      if (!value_seen[static_cast<size_t>(t)]) replace(v_, t);
    }
  }

  // Calls change(element) for those of a dense array that the row does not read.
  template <class V, class Change>
  void ForEachForeign(const View<const V, 4>& view, const RowIndex& row, const Change& change) {
    const int64_t own[3] = {row.b, row.h, row.i};
    const auto& extent = view.extent;
    for (int64_t b = 0; b < extent[0]; ++b)
      for (int64_t h = 0; h < extent[1]; ++h)
        for (int64_t i = 0; i < extent[2]; ++i) {
          const int64_t at[3] = {b, h, i};
          bool reads = true;
          for (size_t r = 0; r < 3; ++r) reads &= extent[r] == 1 || at[r] == own[r];
          for (int64_t j = 0; j < extent[3] && !reads; ++j) change(const_cast<V&>(view(b, h, i, j)));
        }
  }

  void DisturbDense(const Formulas&, const RowIndex& row) {
    const Attention& attention = setup_.attention;
    if (attention.mask.present())
      ForEachForeign(attention.mask.values, row, [&](bool& visible) { visible = random_() % 2 != 0; });
    if (!attention.bias) return;
    std::visit(
        [&]<class V>(const View<const V, 4>& bias) {
          ForEachForeign(bias, row, [&](V& entry) {
            if constexpr (std::is_same_v<V, Float16>) {
              const float choices[] = {-std::numeric_limits<float>::infinity(), -65504, 1, -30};
              entry = ToFloat16(choices[random_() % std::size(choices)]);
            } else if constexpr (std::is_same_v<V, BFloat16>) {
              const float choices[] = {-std::numeric_limits<float>::infinity(), -3e38f, 1, -30};
              entry = ToBFloat16(choices[random_() % std::size(choices)]);
            } else {
              const V choices[] = {-std::numeric_limits<V>::infinity(), std::numeric_limits<V>::lowest(), V{1}, V{-30}};
              entry = choices[random_() % std::size(choices)];
            }
          });
        },
        attention.bias->values);
  }

  void DisturbLists(const RowIndex& row) {
    const Attention& attention = setup_.attention;
    const auto lengths = [&](const View<const int64_t, 2>& view, int64_t limit) {
      if (!view.present()) return;
      for (int64_t b = 0; b < view.extent[0]; ++b)
        for (int64_t i = 0; i < view.extent[1]; ++i)
          if (b != row.b || (view.extent[1] > 1 && i != row.i))
            const_cast<int64_t&>(view(b, i)) = static_cast<int64_t>(random_() % static_cast<uint64_t>(limit + 1));
    };
    const Shape& shape = case_.shape;
    if (case_.packed) return;  // lengths and lists are limited by those of the other sequences
    lengths(attention.query_lengths.values, shape.q_len);
    lengths(attention.key_lengths.values, shape.kv_len);
    lengths(attention.prefix_lengths.values, shape.kv_len);
    const auto positions = [&]<class V>(const View<const V, 2>& view) {
      for (int64_t b = 0; b < view.extent[0]; ++b)
        for (int64_t i = 0; i < view.extent[1]; ++i)
          if ((b != row.b && view.extent[0] > 1) || i != row.i)
            const_cast<V&>(view(b, i)) = view(b, static_cast<int64_t>(random_() % static_cast<uint64_t>(view.extent[1])));
    };
    const auto& list = attention.query_positions.list;
    if (const auto* whole = std::get_if<View<const int64_t, 2>>(&list)) positions(*whole);
    if (const auto* real = std::get_if<View<const double, 2>>(&list)) positions(*real);
  }

  Random random_;
  Case case_;
  reference::Setup<A> setup_;
  reference::Input<T> q_, k_, v_, d_out_;
  Random layout_random_{1};
  reference::Output<T> out_{{0, 0, 0, 0}, reference::Layout::kContiguous, layout_random_}, d_q_ = out_, d_k_ = out_,
                                                                                           d_v_ = out_;
  reference::Numbers<A> lse_, entropy_, max_weight_, mean_distance_;
  reference::Numbers<int64_t> keys_;
  std::vector<A> d_rows_;
};

template <class T>
void ExpectIndependentRows(Case c, uint64_t seed, const char* type, int rows_tried) {
  c.layout = reference::Layout::kContiguous;
  const std::vector<RowIndex> rows = Call<T>(c, seed).Rows();
  if (rows.empty()) return;
  Random random(seed);
  for (int tried = 0; tried < rows_tried; ++tried) {
    const RowIndex row = rows[random() % rows.size()];
    Call<T> call(c, seed);
    const std::string before = call.ResultsOf(row);
    call.Disturb(row);
    const std::string after = call.ResultsOf(row);
    if (before == after) continue;
    const auto differs = std::mismatch(before.begin(), before.end(), after.begin()).first - before.begin();
    ADD_FAILURE() << c.name << ", " << type << ", seed " << seed << ", row " << row.b << " " << row.h << " " << row.i
                  << ": byte " << differs << " of " << before.size() << " differs (out has "
                  << static_cast<std::size_t>(c.shape.value_dim) * sizeof(T) << ")";
  }
}

class Independence : public OnTarget {};

TEST_P(Independence, NothingThatARowMayNotSeeChangesItsBits) {
  uint64_t seed = 100;
  Turn turn;
  for (const Case& c : reference::Cases()) {
    turn.Of([&] { ExpectIndependentRows<float>(c, ++seed, "float32", 1); },
            [&] { ExpectIndependentRows<double>(c, ++seed, "float64", 1); },
            [&] { ExpectIndependentRows<BFloat16>(c, ++seed, "bfloat16", 1); },
            [&] { ExpectIndependentRows<BFloat16>(reference::Fused(c), ++seed, "bfloat16 fused", 1); });
  }
}

TEST_P(Independence, NorInRandomCombinationsOfOptions) {
  for (uint64_t seed = 1; seed <= 120; ++seed)
    for (const Case& c : reference::RandomCases(seed)) ExpectIndependentRows<float>(c, seed, "float32", 2);
}

HEED_IN_TURN_ON_TARGETS(Independence);

}  // namespace
}  // namespace heed
