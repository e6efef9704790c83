// Linear attention and the gated delta rule in double precision by their recurrence, forward and backward, one step after the
// other; and a random problem in memory for the engine's calls.
#ifndef HEED_TESTS_ENGINE_RECURRENCE_H_
#define HEED_TESTS_ENGINE_RECURRENCE_H_

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "heed/gated_delta.h"
#include "heed/linear_attention.h"

namespace heed {

struct MixerSizes {
  int64_t batch, heads, steps, dim, values;
};
enum class Decay { kNone, kHead, kStep };

// What both the engine and the recurrence compute.
struct MixerResults {
  std::vector<double> out, final_state, d_q, d_k, d_v, d_decay, d_beta, d_initial;
};

template <class T>
struct MixerProblem {
  // delta: the gated delta rule. With `offsets` or `lengths` sequences are of different lengths.
  MixerProblem(const MixerSizes& sizes, Decay decay, bool delta, bool normalise = false, std::vector<int64_t> lengths = {},
               std::vector<int64_t> offsets = {}, unsigned seed = 1)
      : sizes(sizes), delta(delta), kind(decay), lengths(std::move(lengths)), offsets(std::move(offsets)) {
    options.normalise = normalise;
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal;
    const auto fill = [&](std::vector<T>& array, int64_t count, const auto& draw) {
      array.resize(static_cast<std::size_t>(count));
      for (T& x : array) x = static_cast<T>(draw());
    };
    const int64_t tokens = sizes.batch * sizes.heads * sizes.steps, state = States() * sizes.heads * sizes.dim * Columns();
    // Keys of length about 1; positive features where weights are summed.
    const double scale = 1 / std::sqrt(static_cast<double>(sizes.dim) + 1);
    const auto feature = [&] { return scale * (normalise ? 0.1 + std::abs(normal(random)) : normal(random)); };
    const auto number = [&] { return normal(random); };
    fill(q, tokens * sizes.dim, feature);
    fill(k, tokens * sizes.dim, feature);
    fill(v, tokens * sizes.values, number);
    fill(this->decay,
         decay == Decay::kNone   ? 0
         : decay == Decay::kHead ? sizes.heads
                                 : tokens,
         [&] { return -0.1 * std::abs(normal(random)); });
    fill(beta, delta ? tokens : 0, [&] { return 1 / (1 + std::exp(-normal(random))); });
    fill(initial, state, [&] { return normalise ? 0.1 + std::abs(normal(random)) : normal(random); });
    fill(d_out, tokens * sizes.values, number);
    fill(d_final, state, number);
  }

  int64_t States() const { return offsets.empty() ? sizes.batch : static_cast<int64_t>(offsets.size()) - 1; }
  int64_t Columns() const { return sizes.values + (options.normalise ? 1 : 0); }

  LinearOptions Options() const {
    LinearOptions all = options;
    if (!lengths.empty()) all.lengths = Lengths::PerBatch(lengths.data(), sizes.batch);
    if (!offsets.empty())
      all.offsets = View<const int64_t, 1>::Contiguous(offsets.data(), {static_cast<int64_t>(offsets.size())});
    return all;
  }
  template <class U>
  View<U, 4> Keys(U* data) const {
    return View<U, 4>::Contiguous(data, {sizes.batch, sizes.heads, sizes.steps, sizes.dim});
  }
  template <class U>
  View<U, 4> Values(U* data) const {
    return View<U, 4>::Contiguous(data, {sizes.batch, sizes.heads, sizes.steps, sizes.values});
  }
  template <class U>
  View<U, 4> State(U* data) const {
    return View<U, 4>::Contiguous(data, {States(), sizes.heads, sizes.dim, Columns()});
  }
  template <class U>
  View<U, 3> Steps(U* data) const {
    return View<U, 3>::Contiguous(data, {sizes.batch, sizes.heads, sizes.steps});
  }
  template <class U>
  View<U, 3> OfDecay(U* data) const {
    if (kind == Decay::kNone) return {};
    return kind == Decay::kStep ? Steps(data) : View<U, 3>::Contiguous(data, {1, sizes.heads, 1});
  }
  LinearInputs<T> Inputs() const {
    LinearInputs<T> in;
    in.q = Keys(q.data());
    in.k = Keys(k.data());
    in.v = Values(v.data());
    in.decay = OfDecay(decay.data());
    in.initial_state = State(initial.data());
    if (delta) in.beta = Steps(beta.data());
    return in;
  }

  // The engine's numbers; every output holds NaN before.
  void Forward(Executor& executor) {
    const T nan = std::numeric_limits<T>::quiet_NaN();
    out.assign(v.size(), nan);
    sums.assign(static_cast<std::size_t>(sizes.batch * sizes.heads * sizes.steps), nan);
    final_state.assign(initial.size(), nan);
    LinearOutputs<T> to;
    to.out = Values(out.data());
    to.final_state = State(final_state.data());
    if (options.normalise) to.sums = Steps(sums.data());
    (delta ? GatedDeltaForward<T> : LinearAttentionForward<T>)(Options(), Inputs(), to, workspace, executor);
  }
  void Backward(Executor& executor) {
    const T nan = std::numeric_limits<T>::quiet_NaN();
    d_q.assign(q.size(), nan);
    d_k.assign(k.size(), nan);
    d_v.assign(v.size(), nan);
    d_decay.assign(decay.size(), nan);
    d_beta.assign(beta.size(), nan);
    d_initial.assign(initial.size(), nan);
    LinearGradients<T> gradients;
    gradients.d_q = Keys(d_q.data());
    gradients.d_k = Keys(d_k.data());
    gradients.d_v = Values(d_v.data());
    gradients.d_decay = OfDecay(d_decay.data());
    gradients.d_initial_state = State(d_initial.data());
    if (delta) gradients.d_beta = Steps(d_beta.data());
    LinearCotangents<T> from;
    from.d_out = Values(d_out.data());
    from.d_final_state = State(d_final.data());
    if (options.normalise) {
      from.out = Values(out.data());
      from.sums = Steps(sums.data());
    }
    (delta ? GatedDeltaBackward<T> : LinearAttentionBackward<T>)(Options(), Inputs(), from, gradients, workspace, executor);
  }
  MixerResults Run(Executor& executor) {
    Forward(executor);
    Backward(executor);
    const auto wide = [](const std::vector<T>& numbers) { return std::vector<double>(numbers.begin(), numbers.end()); };
    return {wide(out), wide(final_state), wide(d_q), wide(d_k), wide(d_v), wide(d_decay), wide(d_beta), wide(d_initial)};
  }

  // A sequence and head: where its steps are, the states before and after each, and what each adds for its key.
  struct Walk {
    int64_t b, h, row, first, count;
    std::vector<std::vector<double>> states, added;
  };
  Walk WalkOf(int64_t b, int64_t h) const {
    if (offsets.empty()) return {b, h, b, 0, lengths.empty() ? sizes.steps : lengths[static_cast<std::size_t>(b)], {}, {}};
    const int64_t first = offsets[static_cast<std::size_t>(b)];
    return {b, h, 0, first, offsets[static_cast<std::size_t>(b) + 1] - first, {}, {}};
  }
  double DecayOf(const Walk& walk, int64_t t) const {
    const View<const T, 3> of = OfDecay(decay.data());
    return kind == Decay::kNone ? 1.0 : std::exp(double{kind == Decay::kStep ? of(walk.row, walk.h, t) : of(0, walk.h, 0)});
  }
  double ValueOf(const Walk& walk, int64_t t, int64_t j) const {
    return j < sizes.values ? double{Values(v.data())(walk.row, walk.h, t, j)} : 1.0;
  }

  // The recurrence, and its derivative.
  void Recur(Walk& walk, MixerResults& results) const {
    auto& [b, h, row, first, count, states, added] = walk;
    const int64_t dim = sizes.dim, columns = Columns(), state = dim * columns;
    const LinearInputs<T> in = Inputs();
    const auto begin = initial.begin() + (b * sizes.heads + h) * state;
    states.emplace_back(begin, begin + state);
    for (int64_t t = first; t < first + count; ++t) {
      std::vector<double> next = states.back(), u(static_cast<std::size_t>(columns));
      const double decay_now = DecayOf(walk, t);
      for (double& x : next) x *= decay_now;
      for (int64_t j = 0; j < columns; ++j) {
        double held = 0;
        for (int64_t i = 0; i < dim; ++i) held += next[i * columns + j] * double{in.k(row, h, t, i)};
        u[j] = delta ? double{in.beta(row, h, t)} * (ValueOf(walk, t, j) - held) : ValueOf(walk, t, j);
      }
      for (int64_t i = 0; i < state; ++i) next[i] += double{in.k(row, h, t, i / columns)} * u[i % columns];
      std::vector<double> y(static_cast<std::size_t>(columns));
      for (int64_t i = 0; i < state; ++i) y[i % columns] += double{in.q(row, h, t, i / columns)} * next[i];
      for (int64_t j = 0; j < sizes.values; ++j)
        Values(results.out.data())(row, h, t, j) = options.normalise ? (y.back() == 0 ? 0 : y[j] / y.back()) : y[j];
      states.push_back(next);
      added.push_back(u);
    }
    for (int64_t i = 0; i < state; ++i) State(results.final_state.data())(b, h, i / columns, i % columns) = states.back()[i];
  }
  void RecurBack(const Walk& walk, MixerResults& results) const {
    const auto& [b, h, row, first, count, states, added] = walk;
    const int64_t dim = sizes.dim, columns = Columns(), state = dim * columns;
    const LinearInputs<T> in = Inputs();
    const auto begin = d_final.begin() + (b * sizes.heads + h) * state;
    std::vector<double> r(begin, begin + state);
    for (int64_t t = first + count - 1; t >= first; --t) {
      const std::vector<double>&after = states[t - first + 1], &before = states[t - first], &u = added[t - first];
      std::vector<double> dy(static_cast<std::size_t>(columns)), du(dy.size()), dk(static_cast<std::size_t>(dim));
      double sum = 1;
      if (options.normalise) {
        sum = 0;
        for (int64_t i = 0; i < dim; ++i) sum += double{in.q(row, h, t, i)} * after[i * columns + columns - 1];
      }
      for (int64_t j = 0; j < sizes.values; ++j) {
        const double cotangent =
            double{d_out[static_cast<std::size_t>(((row * sizes.heads + h) * sizes.steps + t) * sizes.values + j)]};
        dy[j] = cotangent / sum;
        if (options.normalise) dy.back() -= cotangent * Values(results.out.data())(row, h, t, j) / sum;
      }
      const double decay_now = DecayOf(walk, t);
      for (int64_t i = 0; i < dim; ++i) {
        double dq = 0;
        for (int64_t j = 0; j < columns; ++j) {
          dq += after[i * columns + j] * dy[j];
          r[i * columns + j] += double{in.q(row, h, t, i)} * dy[j];
          du[j] += r[i * columns + j] * double{in.k(row, h, t, i)};
          dk[i] += r[i * columns + j] * u[j];
        }
        Keys(results.d_q.data())(row, h, t, i) = dq;
      }
      for (int64_t j = 0; j < columns && delta; ++j) {
        double held = 0;
        const double b_now = double{in.beta(row, h, t)};
        for (int64_t i = 0; i < dim; ++i) held += decay_now * before[i * columns + j] * double{in.k(row, h, t, i)};
        Steps(results.d_beta.data())(row, h, t) += du[j] * (ValueOf(walk, t, j) - held);
        du[j] *= b_now;
        for (int64_t i = 0; i < dim; ++i) {
          dk[i] -= decay_now * before[i * columns + j] * du[j];
          r[i * columns + j] -= double{in.k(row, h, t, i)} * du[j];
        }
      }
      for (int64_t j = 0; j < sizes.values; ++j) Values(results.d_v.data())(row, h, t, j) = du[j];
      for (int64_t i = 0; i < dim; ++i) Keys(results.d_k.data())(row, h, t, i) = dk[i];
      double d_log = 0;
      for (int64_t i = 0; i < state; ++i) {
        r[i] *= decay_now;
        d_log += before[i] * r[i];
      }
      if (kind == Decay::kStep) Steps(results.d_decay.data())(row, h, t) = d_log;
      if (kind == Decay::kHead) results.d_decay[static_cast<std::size_t>(h)] += d_log;
    }
    for (int64_t i = 0; i < state; ++i) State(results.d_initial.data())(b, h, i / columns, i % columns) = r[i];
  }
  MixerResults Recurrence() const {
    const auto zeros = [](const auto& like) { return std::vector<double>(like.size()); };
    MixerResults results{zeros(v), zeros(initial), zeros(q), zeros(k), zeros(v), zeros(decay), zeros(beta), zeros(initial)};
    for (int64_t b = 0; b < States(); ++b)
      for (int64_t h = 0; h < sizes.heads; ++h) {
        Walk walk = WalkOf(b, h);
        Recur(walk, results);
        RecurBack(walk, results);
      }
    return results;
  }

  MixerSizes sizes;
  bool delta;
  Decay kind;
  LinearOptions options{};
  std::vector<int64_t> lengths, offsets;
  std::vector<T> q, k, v, decay, beta, initial, d_out, d_final;
  std::vector<T> out, sums, final_state, d_q, d_k, d_v, d_decay, d_beta, d_initial;
  Workspace workspace;
};

// Calls visit(name, numbers of a, numbers of b) for every array of results.
template <class Visit>
void ForEachResult(const MixerResults& a, const MixerResults& b, const Visit& visit) {
  visit("out", a.out, b.out);
  visit("final_state", a.final_state, b.final_state);
  visit("d_q", a.d_q, b.d_q);
  visit("d_k", a.d_k, b.d_k);
  visit("d_v", a.d_v, b.d_v);
  visit("d_decay", a.d_decay, b.d_decay);
  visit("d_beta", a.d_beta, b.d_beta);
  visit("d_initial", a.d_initial, b.d_initial);
}

}  // namespace heed

#endif  // HEED_TESTS_ENGINE_RECURRENCE_H_
