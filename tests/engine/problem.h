// A small random problem in memory, for tests that call the engine themselves.
#ifndef HEED_TESTS_ENGINE_PROBLEM_H_
#define HEED_TESTS_ENGINE_PROBLEM_H_

#include <cstdint>
#include <limits>
#include <random>
#include <type_traits>
#include <variant>
#include <vector>

#include "heed/attention.h"
#include "position/scheme_set.h"

namespace heed {

template <class T>
struct Problem {
  explicit Problem(const Shape& shape, uint64_t seed = 1) : shape(shape) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal;
    const auto fill = [&](std::vector<T>& array, int64_t heads, int64_t length, int64_t width) {
      array.resize(static_cast<size_t>(shape.batch * heads * length * width));
      for (T& x : array) x = static_cast<T>(normal(random));
    };
    fill(q, shape.q_heads, shape.q_len, shape.head_dim);
    fill(k, shape.kv_heads, shape.kv_len, shape.head_dim);
    fill(v, shape.kv_heads, shape.kv_len, shape.value_dim);
    fill(d_out, shape.q_heads, shape.q_len, shape.value_dim);
    const T nan = std::numeric_limits<T>::quiet_NaN();
    out.assign(d_out.size(), nan);
    lse.assign(static_cast<size_t>(shape.batch * shape.q_heads * shape.q_len), nan);
    d_q.assign(q.size(), nan);
    d_k.assign(k.size(), nan);
    d_v.assign(v.size(), nan);
  }

  View<T, 4> Queries(std::vector<T>& a) const { return Of(a, shape.q_heads, shape.q_len, shape.head_dim); }
  View<T, 4> Outputs(std::vector<T>& a) const { return Of(a, shape.q_heads, shape.q_len, shape.value_dim); }
  View<T, 4> Keys(std::vector<T>& a) const { return Of(a, shape.kv_heads, shape.kv_len, shape.head_dim); }
  View<T, 4> Values(std::vector<T>& a) const { return Of(a, shape.kv_heads, shape.kv_len, shape.value_dim); }
  View<T, 3> Lse() { return View<T, 3>::Contiguous(lse.data(), {shape.batch, shape.q_heads, shape.q_len}); }

  void Forward(const Attention& attention, Executor& executor) {
    heed::Forward(attention, Queries(q), Keys(k), Values(v), Outputs(out), Lse(), workspace, executor);
  }

  void Backward(const Attention& attention, Executor& executor) {
    // The gradients of all tables, one after the other in d_bias.
    BiasGradients<T> d_biases;
    int64_t used = 0;
    const auto for_each = [&](const auto& visit) {
      position::ForEachSchemeGradient(attention, d_biases, [&](const char*, auto& gradient, const auto* table) {
        if (table) std::visit([&](const auto& view) { visit(gradient, view.extent); }, *table);
      });
    };
    for_each([&](auto& gradient, const auto& extent) {
      gradient = std::remove_cvref_t<decltype(gradient)>::Contiguous(nullptr, extent);
      used += gradient.size();
    });
    d_bias.assign(static_cast<size_t>(used), std::numeric_limits<T>::quiet_NaN());
    used = 0;
    for_each([&](auto& gradient, const auto&) {
      gradient.data = d_bias.data() + used;
      used += gradient.size();
    });
    heed::Backward(attention, Queries(q), Keys(k), Values(v), Outputs(out), Lse(), Outputs(d_out), Queries(d_q), Keys(d_k),
                   Values(d_v), d_biases, workspace, executor);
  }

  void Run(const Attention& attention, Executor& executor) {
    Forward(attention, executor);
    Backward(attention, executor);
  }

  Shape shape;
  std::vector<T> q, k, v, d_out, out, lse, d_q, d_k, d_v, d_bias;
  Workspace workspace;

 private:
  View<T, 4> Of(std::vector<T>& a, int64_t heads, int64_t length, int64_t width) const {
    return View<T, 4>::Contiguous(a.data(), {shape.batch, heads, length, width});
  }
};

}  // namespace heed

#endif  // HEED_TESTS_ENGINE_PROBLEM_H_
