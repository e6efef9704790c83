// What linear attention and the gated delta rule are both held to.
#ifndef HEED_TESTS_ENGINE_RECURRENCE_CHECKS_H_
#define HEED_TESTS_ENGINE_RECURRENCE_CHECKS_H_

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/engine/recurrence.h"
#include "tests/error_text.h"

namespace heed {

inline double Largest(const std::vector<double>& numbers) {
  double largest = 0;
  for (const double x : numbers) largest = std::max(largest, std::abs(x));
  return largest;
}

inline void ExpectNear(const MixerResults& got, const MixerResults& expected, double tolerance, const std::string& what) {
  ForEachResult(got, expected, [&](const char* name, const std::vector<double>& a, const std::vector<double>& b) {
    ASSERT_EQ(a.size(), b.size()) << name;
    const double bound = tolerance * std::max(1.0, Largest(b));
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], bound) << name << '[' << i << "] of " << what;
  });
}

// Lengths around chunks of 64 and blocks of 16 steps, widths around vectors.
inline std::vector<MixerSizes> MixerShapes() {
  return {{1, 1, 1, 1, 1}, {2, 2, 17, 5, 3}, {1, 2, 64, 16, 32}, {1, 1, 65, 33, 7}, {2, 1, 150, 8, 20},
          {1, 2, 0, 4, 4}, {1, 1, 20, 0, 3}, {1, 1, 70, 3, 0},   {0, 2, 5, 4, 4}};
}

// float: no sum has more than D + Dv + 3 * 64 products or passes more than three states, and each of them is rounded by half of
// epsilon; four times that for sums of sums.
template <class T>
void ExpectTheRecurrence(const MixerSizes& s, Decay decay, bool delta, bool normalise) {
  SerialExecutor serial;
  MixerProblem<T> problem(s, decay, delta, normalise);
  const double rounding = std::numeric_limits<float>::epsilon() / 2 * static_cast<double>(s.dim + s.values + 3 * 64);
  ExpectNear(problem.Run(serial), problem.Recurrence(), sizeof(T) == 8 ? 1e-12 : 4 * rounding,
             std::to_string(s.batch) + ' ' + std::to_string(s.heads) + ' ' + std::to_string(s.steps) + ' ' +
                 std::to_string(s.dim) + ' ' + std::to_string(s.values) + " decay " + std::to_string(static_cast<int>(decay)) +
                 (normalise ? " normalised" : ""));
}

// Every gradient in double, by central differences of the engine's own forward pass.
inline void ExpectFiniteDifferences(const MixerSizes& sizes, Decay decay, bool delta, bool normalise) {
  SerialExecutor serial;
  MixerProblem<double> p(sizes, decay, delta, normalise);
  const MixerResults results = p.Run(serial);
  const auto loss = [&] {
    p.Forward(serial);
    double sum = 0;
    for (std::size_t i = 0; i < p.out.size(); ++i) sum += p.out[i] * p.d_out[i];
    for (std::size_t i = 0; i < p.final_state.size(); ++i) sum += p.final_state[i] * p.d_final[i];
    return sum;
  };
  const auto check = [&](const char* name, std::vector<double>& input, const std::vector<double>& gradient) {
    constexpr double kStep = 1e-5;
    // Some forty of each are enough.
    for (std::size_t i = 0; i < input.size(); i += 1 + input.size() / 40) {
      const double kept = input[i];
      input[i] = kept + kStep;
      const double above = loss();
      input[i] = kept - kStep;
      const double below = loss();
      input[i] = kept;
      // Differences err by the square of the step and by rounding over the step.
      EXPECT_NEAR(gradient[i], (above - below) / (2 * kStep), 1e-7 * (1 + std::abs(gradient[i]))) << name << '[' << i << ']';
    }
  };
  check("q", p.q, results.d_q);
  check("k", p.k, results.d_k);
  check("v", p.v, results.d_v);
  check("decay", p.decay, results.d_decay);
  check("beta", p.beta, results.d_beta);
  check("initial_state", p.initial, results.d_initial);
}

template <class T>
void ExpectTheSameBits(const MixerSizes& sizes, Decay decay, bool delta, bool normalise) {
  SerialExecutor serial;
  MixerProblem<T> problem(sizes, decay, delta, normalise);
  const MixerResults expected = problem.Run(serial);
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    ForEachResult(problem.Run(pool), expected, [&](const char* name, const auto& a, const auto& b) {
      EXPECT_EQ(a, b) << name << " on " << threads << " threads, " << sizes.steps << " steps";
    });
  }
}

// The steps begin .. end - 1 of a problem, whose initial state is the one given.
inline MixerProblem<double> PartOf(const MixerProblem<double>& whole, int64_t begin, int64_t end,
                                   const std::vector<double>& state) {
  MixerSizes sizes = whole.sizes;
  sizes.steps = end - begin;
  MixerProblem<double> part(sizes, whole.kind, whole.delta, whole.options.normalise);
  const auto cut = [&](const std::vector<double>& from, std::vector<double>& to, int64_t width) {
    for (std::size_t i = 0; i < to.size(); ++i) {
      const auto at = static_cast<int64_t>(i), row = at / width / sizes.steps, step = at / width % sizes.steps;
      to[i] = from[static_cast<std::size_t>(((row * whole.sizes.steps) + begin + step) * width + at % width)];
    }
  };
  cut(whole.q, part.q, sizes.dim);
  cut(whole.k, part.k, sizes.dim);
  cut(whole.v, part.v, sizes.values);
  cut(whole.d_out, part.d_out, sizes.values);
  if (whole.kind == Decay::kStep) cut(whole.decay, part.decay, 1);
  if (whole.delta) cut(whole.beta, part.beta, 1);
  part.initial = state;
  return part;
}

// Two parts, the second from the first one's final state; backward, the first from the second one's gradient of that.
inline void ExpectStatesCarryOver(const MixerSizes& sizes, bool delta, bool normalise) {
  SerialExecutor serial;
  MixerProblem<double> whole(sizes, Decay::kStep, delta, normalise);
  const MixerResults expected = whole.Run(serial);
  const int64_t cut = sizes.steps / 2 + 3;
  MixerProblem<double> first = PartOf(whole, 0, cut, whole.initial);
  first.Forward(serial);
  MixerProblem<double> second = PartOf(whole, cut, sizes.steps, first.final_state);
  second.d_final = whole.d_final;
  const MixerResults later = second.Run(serial);
  first.d_final = second.d_initial;
  const MixerResults earlier = first.Run(serial);
  const auto near = [](const char* name, const std::vector<double>& a, const std::vector<double>& b) {
    ASSERT_EQ(a.size(), b.size());
    const double bound = 1e-12 * std::max(1.0, Largest(b));
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], bound) << name;
  };
  near("final_state", later.final_state, expected.final_state);
  near("d_initial", earlier.d_initial, expected.d_initial);
  const auto both = [&](const char* name, const std::vector<double>& a, const std::vector<double>& b, int64_t width,
                        const std::vector<double>& all) {
    const double bound = 1e-12 * std::max(1.0, Largest(all));
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto at = static_cast<int64_t>(i), row = at / width / sizes.steps, step = at / width % sizes.steps;
      const int64_t part = step < cut ? (row * cut + step) * width : (row * (sizes.steps - cut) + step - cut) * width;
      ASSERT_NEAR((step < cut ? a : b)[static_cast<std::size_t>(part + at % width)], all[i], bound) << name << ' ' << step;
    }
  };
  both("out", earlier.out, later.out, sizes.values, expected.out);
  both("d_q", earlier.d_q, later.d_q, sizes.dim, expected.d_q);
  both("d_k", earlier.d_k, later.d_k, sizes.dim, expected.d_k);
  both("d_v", earlier.d_v, later.d_v, sizes.values, expected.d_v);
  both("d_decay", earlier.d_decay, later.d_decay, 1, expected.d_decay);
}

inline void ExpectStepsAreOnePass(const MixerSizes& sizes, Decay decay, bool delta, bool normalise) {
  SerialExecutor serial;
  ThreadPool pool(2);
  MixerProblem<double> p(sizes, decay, delta, normalise);
  p.Forward(serial);
  std::vector<double> state = p.initial, out(static_cast<std::size_t>(sizes.batch * sizes.heads * sizes.values));
  const LinearInputs<double> in = p.Inputs();
  const auto of_step = [](const auto& view, int64_t t) {
    return View<const double, 3>{view.data + t * view.stride[2],
                                 {view.extent[0], view.extent[1], view.extent[3]},
                                 {view.stride[0], view.stride[1], view.stride[3]}};
  };
  const auto number = [](const auto& view, int64_t t) {
    return View<const double, 2>{
        view.data + t * view.stride[2], {view.extent[0], view.extent[1]}, {view.stride[0], view.stride[1]}};
  };
  for (int64_t t = 0; t < sizes.steps; ++t) {
    LinearStep<double> step;
    step.q = of_step(in.q, t), step.k = of_step(in.k, t), step.v = of_step(in.v, t);
    if (in.decay.present()) step.decay = number(in.decay, t);
    if (delta) step.beta = number(in.beta, t);
    const auto to = View<double, 3>::Contiguous(out.data(), {sizes.batch, sizes.heads, sizes.values});
    if (delta) {
      GatedDeltaStep(step, p.State(state.data()), to, pool);
    } else {
      LinearAttentionStep(step, p.State(state.data()), to, pool, normalise);
    }
    for (int64_t b = 0; b < sizes.batch; ++b)
      for (int64_t h = 0; h < sizes.heads; ++h)
        for (int64_t c = 0; c < sizes.values; ++c) ASSERT_NEAR(to(b, h, c), p.Values(p.out.data())(b, h, t, c), 1e-12) << t;
  }
  for (std::size_t i = 0; i < state.size(); ++i) ASSERT_NEAR(state[i], p.final_state[i], 1e-12);
}

// Steps beyond a length hold NaN, and leave no trace but zeros.
inline void ExpectLengthsAreAlone(bool delta) {
  const MixerSizes sizes{3, 2, 90, 6, 5};
  const std::vector<int64_t> lengths{90, 0, 67};
  SerialExecutor serial;
  ThreadPool pool(4);
  for (const Decay decay : {Decay::kStep, Decay::kHead}) {
    MixerProblem<double> p(sizes, decay, delta, false, lengths);
    const MixerResults expected = p.Recurrence();
    const double nan = std::numeric_limits<double>::quiet_NaN();
    for (int64_t b = 0; b < 3; ++b)
      for (int64_t h = 0; h < 2; ++h)
        for (int64_t t = lengths[static_cast<std::size_t>(b)]; t < 90; ++t) {
          for (int64_t c = 0; c < 6; ++c) p.Keys(p.q.data())(b, h, t, c) = p.Keys(p.k.data())(b, h, t, c) = nan;
          for (int64_t c = 0; c < 5; ++c) p.Values(p.v.data())(b, h, t, c) = p.Values(p.d_out.data())(b, h, t, c) = nan;
          if (decay == Decay::kStep) p.Steps(p.decay.data())(b, h, t) = nan;
          if (delta) p.Steps(p.beta.data())(b, h, t) = nan;
        }
    const MixerResults results = p.Run(serial);
    ExpectNear(results, expected, 1e-12, "lengths");
    ForEachResult(p.Run(pool), results, [](const char* name, const auto& a, const auto& b) { EXPECT_EQ(a, b) << name; });
  }
}

inline void ExpectPackedAreAlone(bool delta) {
  const MixerSizes sizes{1, 2, 200, 6, 5};
  SerialExecutor serial;
  ThreadPool pool(8);
  for (const Decay decay : {Decay::kStep, Decay::kHead}) {
    MixerProblem<double> p(sizes, decay, delta, false, {}, {0, 0, 70, 71, 71, 200, 200});
    const MixerResults results = p.Run(serial);
    ExpectNear(results, p.Recurrence(), 1e-12, "packed");
    ForEachResult(p.Run(pool), results, [](const char* name, const auto& a, const auto& b) { EXPECT_EQ(a, b) << name; });
  }
}

// Thousands of steps whose decays sum to numbers that no exponential could take; 0 and minus infinity among them.
inline void ExpectExtremeDecays(bool delta) {
  const double infinity = std::numeric_limits<double>::infinity();
  SerialExecutor serial;
  MixerProblem<double> p({1, 2, 3000, 4, 3}, Decay::kStep, delta);
  const double kinds[] = {-1e-9, 0, -800, -1e300, -infinity, -3, 0, -1e-3, 0, -40};
  for (std::size_t i = 0; i < p.decay.size(); ++i) p.decay[i] = i % 7 == 0 ? kinds[i / 7 % 10] : i / 1000 % 2 ? -90 : -0.01;
  ExpectNear(p.Run(serial), p.Recurrence(), 1e-12, "extreme decays");
  // What a step forgets has a gradient of exactly 0.
  for (std::size_t i = 0; i < p.decay.size(); ++i) EXPECT_TRUE(p.decay[i] != -infinity || p.d_decay[i] == 0.0) << i;

  // In float, small decays over long stretches after strong ones: the weights lose no digits to the sum of all.
  MixerProblem<float> f({1, 1, 2000, 4, 3}, Decay::kStep, delta);
  for (std::size_t i = 0; i < f.decay.size(); ++i) f.decay[i] = i % 300 == 50 ? -1e5F : i % 300 == 60 ? -infinity : -1e-3F;
  ExpectNear(f.Run(serial), f.Recurrence(), 1e-5, "strong and weak decays in float");
  MixerProblem<float> constant({1, 1, 4000, 4, 3}, Decay::kHead, delta);
  constant.decay[0] = -1e-4F;
  ExpectNear(constant.Run(serial), constant.Recurrence(), 3e-5, "a weak decay for all steps in float");
  for (const float all : {0.0F, -1e6F, -std::numeric_limits<float>::infinity()}) {
    constant.decay[0] = all;
    ExpectNear(constant.Run(serial), constant.Recurrence(), 3e-5, "one decay of " + std::to_string(all));
  }
}

// A NaN in a step is seen by later outputs and by gradients of earlier inputs, and by no earlier output.
inline void ExpectNothingReachesBack(bool delta) {
  const MixerSizes sizes{1, 1, 130, 5, 6};
  SerialExecutor serial;
  MixerProblem<float> p(sizes, Decay::kStep, delta);
  p.Run(serial);
  const std::vector<float> out = p.out, d_q = p.d_q;
  for (const int64_t t : {0, 7, 69, 129})
    for (const int which : {0, 1, 2}) {
      MixerProblem<float> spoiled(sizes, Decay::kStep, delta);
      std::vector<float>& array = which == 0 ? spoiled.q : which == 1 ? spoiled.k : spoiled.v;
      array[static_cast<std::size_t>(t * (which == 2 ? sizes.values : sizes.dim) + 1)] = std::nanf("");
      spoiled.Run(serial);
      for (int64_t s = 0; s < t; ++s) {
        for (int64_t c = 0; c < sizes.values; ++c)
          ASSERT_EQ(spoiled.Values(spoiled.out.data())(0, 0, s, c), p.Values(p.out.data())(0, 0, s, c)) << t << ' ' << s;
        for (int64_t c = 0; c < sizes.dim; ++c)
          ASSERT_EQ(spoiled.Keys(spoiled.d_q.data())(0, 0, s, c), p.Keys(p.d_q.data())(0, 0, s, c)) << t << ' ' << s;
      }
      EXPECT_TRUE(std::isnan(spoiled.out[static_cast<std::size_t>(t * sizes.values + 1)])) << t << ' ' << which;
    }
}

// Steps before heads, as layers have them, and everything backwards.
inline void ExpectAnyStrides(bool delta) {
  const MixerSizes s{2, 3, 70, 5, 6};
  SerialExecutor serial;
  MixerProblem<double> p(s, Decay::kStep, delta);
  p.Run(serial);
  const auto turned = [&](const auto& view) {
    // [B, N, width, H], from the end on.
    const auto& e = view.extent;
    std::vector<double> memory(static_cast<std::size_t>(view.size()));
    View<double, 4> to{memory.data() + memory.size() - 1, e, {-e[1] * e[2] * e[3], -1, -e[1] * e[3], -e[1]}};
    for (int64_t b = 0; b < e[0]; ++b)
      for (int64_t h = 0; h < e[1]; ++h)
        for (int64_t t = 0; t < e[2]; ++t)
          for (int64_t c = 0; c < e[3]; ++c) to(b, h, t, c) = view(b, h, t, c);
    return std::pair(std::move(memory), to);
  };
  LinearInputs<double> in = p.Inputs();
  auto q = turned(in.q), k = turned(in.k), v = turned(in.v), out = turned(in.v), d_k = turned(in.k);
  auto d_out = turned(p.Values<const double>(p.d_out.data()));
  auto initial = turned(in.initial_state), final_state = turned(in.initial_state);
  in.q = q.second, in.k = k.second, in.v = v.second, in.initial_state = initial.second;
  LinearOutputs<double> to;
  to.out = out.second, to.final_state = final_state.second;
  (delta ? GatedDeltaForward<double> : LinearAttentionForward<double>)({}, in, to, p.workspace, serial);
  LinearCotangents<double> from;
  from.d_out = d_out.second, from.d_final_state = p.State<const double>(p.d_final.data());
  LinearGradients<double> gradients;
  gradients.d_k = d_k.second;
  (delta ? GatedDeltaBackward<double> : LinearAttentionBackward<double>)({}, in, from, gradients, p.workspace, serial);
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t h = 0; h < s.heads; ++h)
      for (int64_t t = 0; t < s.steps; ++t) {
        for (int64_t c = 0; c < s.values; ++c) ASSERT_EQ(to.out(b, h, t, c), p.Values(p.out.data())(b, h, t, c));
        for (int64_t c = 0; c < s.dim; ++c) ASSERT_EQ(gradients.d_k(b, h, t, c), p.Keys(p.d_k.data())(b, h, t, c));
      }
  ASSERT_EQ(to.final_state(1, 2, 4, 5), p.final_state.back());
}

// Each gradient by itself has the bits that it has among all; none is fine.
inline void ExpectWantedGradientsAlone(bool delta) {
  SerialExecutor serial;
  MixerProblem<float> p({2, 2, 75, 4, 6}, Decay::kHead, delta);
  p.Run(serial);
  const std::vector<std::vector<float>*> arrays{&p.d_q, &p.d_k, &p.d_v, &p.d_decay, &p.d_initial, &p.d_beta};
  for (std::size_t wanted = 0; wanted <= arrays.size(); ++wanted) {
    if (wanted == 5 && !delta) continue;
    std::vector<float> got(wanted < arrays.size() ? arrays[wanted]->size() : 0);
    LinearGradients<float> gradients;
    if (wanted == 0) gradients.d_q = p.Keys(got.data());
    if (wanted == 1) gradients.d_k = p.Keys(got.data());
    if (wanted == 2) gradients.d_v = p.Values(got.data());
    if (wanted == 3) gradients.d_decay = p.OfDecay(got.data());
    if (wanted == 4) gradients.d_initial_state = p.State(got.data());
    if (wanted == 5) gradients.d_beta = p.Steps(got.data());
    LinearCotangents<float> from;
    from.d_out = p.Values<const float>(p.d_out.data());
    from.d_final_state = p.State<const float>(p.d_final.data());
    (delta ? GatedDeltaBackward<float> : LinearAttentionBackward<float>)({}, p.Inputs(), from, gradients, p.workspace, serial);
    EXPECT_EQ(got, wanted < arrays.size() ? *arrays[wanted] : got) << wanted;
  }
}

// One thread: forward the same for any length, backward a state and its decay for every 64 steps.
inline void ExpectMemoryIsLinear(bool delta) {
  SerialExecutor serial;
  const auto bytes = [&](int64_t steps, bool backward) {
    MixerProblem<float> p({1, 2, steps, 48, 32}, Decay::kStep, delta);
    p.Forward(serial);
    if (backward) p.Backward(serial);
    return p.workspace.size();
  };
  EXPECT_EQ(bytes(64, false), bytes(640, false));
  EXPECT_EQ(bytes(640, true) - bytes(64, true), 9 * (48 * 32 + 16) * sizeof(float));
}

inline void ExpectCommonRefusals(bool delta) {
  SerialExecutor serial;
  MixerProblem<double> p({2, 3, 4, 2, 5}, Decay::kStep, delta);
  std::vector<double> out(p.v.size(), 7.0), final_state(p.initial.size(), 7.0);
  LinearOptions options;
  LinearInputs<double> in = p.Inputs();
  LinearOutputs<double> to;
  const auto forward = [&] {
    const std::string text = WhatOf<InvalidArgument>(
        [&] { (delta ? GatedDeltaForward<double> : LinearAttentionForward<double>)(options, in, to, p.workspace, serial); });
    in = p.Inputs();
    to.out = p.Values(out.data());
    to.final_state = p.State(final_state.data());
    options = {};
    return text;
  };
  EXPECT_EQ(forward(), "out: expected the shape of v = [2, 3, 4, 5], got [0, 0, 0, 0]");
  in.k.extent[3] = 1;
  EXPECT_EQ(forward(), "k: expected the shape of q = [2, 3, 4, 2], got [2, 3, 4, 1]");
  in.v.extent[2] = 3;
  EXPECT_EQ(forward(), "v: expected [B, H, N, Dv] = [2, 3, 4, 5], got [2, 3, 3, 5]");
  in.q.data = nullptr;
  EXPECT_EQ(forward(), "q: no memory behind shape [2, 3, 4, 2]");
  in.decay.extent = {2, 3, 1};
  EXPECT_EQ(forward(), "decay: expected [B, H, N], or [1, H, 1] for a decay a head, = [1, 3, 1], got [2, 3, 1]");
  in.initial_state.extent[0] = 1;
  EXPECT_EQ(forward(), "initial_state: expected [B, H, D, Dv] = [2, 3, 2, 5], got [1, 3, 2, 5]");
  to.out.data = const_cast<double*>(p.v.data());
  EXPECT_EQ(forward(), "out: its memory overlaps v");
  to.final_state.data = const_cast<double*>(p.initial.data());
  EXPECT_EQ(forward(), "final_state: its memory overlaps initial_state");
  to.out.stride[3] = 0;
  EXPECT_EQ(forward(), "out: its elements overlap each other; an output needs distinct elements");
  const std::vector<int64_t> offsets{0, 3, 2, 4}, lengths{4, 5};
  options.lengths = Lengths::PerBatch(lengths.data(), 2);
  EXPECT_EQ(forward(), "lengths: expected values in 0..4, got 5 in batch row 1");
  options.offsets = View<const int64_t, 1>::Contiguous(offsets.data(), {4});
  EXPECT_EQ(forward(), "q: packed sequences lie in arrays [1, H, T, D], got a batch of 2");
  if (delta) {
    in.beta = {};
    EXPECT_EQ(forward(), "beta: the gated delta rule needs it, [B, H, N]");
    p.beta[3] = std::nan("");
    EXPECT_EQ(forward(), "beta: expected finite numbers, got nan at step 3 of head 0");
    p.beta[3] = 2;
    options.normalise = true;
    EXPECT_EQ(forward(), "normalise: the gated delta rule has no normaliser");
  }
  p.decay[5] = 0.25;
  EXPECT_EQ(forward(), "decay: expected log decays of at most 0, got 0.250000 at step 1 of head 1");
  p.decay[5] = std::nan("");
  EXPECT_EQ(forward(), "decay: expected log decays of at most 0, got nan at step 1 of head 1");
  p.decay[5] = 0;
  p.initial[11] = std::nan("");
  EXPECT_EQ(forward(), "initial_state: expected finite numbers; those of head 1 are not");
  EXPECT_EQ(out, std::vector<double>(out.size(), 7.0));
  EXPECT_EQ(final_state, std::vector<double>(final_state.size(), 7.0));

  std::vector<double> state(30), row(15);
  LinearStep<double> step;
  const auto take = [&] {
    const auto of = View<double, 3>::Contiguous(row.data(), {1, 3, 5});
    const auto states = View<double, 4>::Contiguous(state.data(), {1, 3, 2, 5});
    return WhatOf<InvalidArgument>(
        [&] { delta ? GatedDeltaStep(step, states, of, serial) : LinearAttentionStep(step, states, of, serial); });
  };
  step.q = step.k = View<const double, 3>::Contiguous(p.q.data(), {1, 3, 2});
  step.v = View<const double, 3>::Contiguous(p.v.data(), {1, 3, 5});
  if (delta) {
    EXPECT_EQ(take(), "beta: the gated delta rule needs it, [B, H]");
    step.beta = View<const double, 2>::Contiguous(p.d_final.data(), {1, 3});
  }
  const double decays[] = {0, 1, 0};
  step.decay = View<const double, 2>::Contiguous(decays, {1, 3});
  EXPECT_EQ(take(), "decay: expected log decays of at most 0, got 1.000000 for head 1");
  step.decay = {};
  state[25] = std::nan("");
  EXPECT_EQ(take(), "state: expected finite numbers; those of head 2 are not");
  state[25] = 0;
  EXPECT_EQ(take(), "");
}

}  // namespace heed

#endif  // HEED_TESTS_ENGINE_RECURRENCE_CHECKS_H_
