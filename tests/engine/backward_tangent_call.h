// A case of the reference with everything that the tangent of its backward pass takes.
#ifndef HEED_TESTS_ENGINE_BACKWARD_TANGENT_CALL_H_
#define HEED_TESTS_ENGINE_BACKWARD_TANGENT_CALL_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

#include "heed/attention.h"
#include "position/scheme_set.h"
#include "reference/cases.h"
#include "reference/reference.h"
#include "reference/table_gradients.h"
#include "reference/trial_arrays.h"
#include "reference/trial_setup.h"

namespace heed {

// Whether second derivatives refuse a case.
inline bool HasNoSecondDerivative(const Attention& attention) {
  return attention.content_bias || attention.transformer_xl || attention.column_decay || attention.contextual_position;
}

// Whether a table, named as in errors, has second derivatives.
inline bool IsTwiceDifferentiable(std::string_view table) {
  return table == "dBias" || table == "dRelativeBias" || table == "dSlopes";
}

// Leaves what second derivatives have.
template <class A>
void LeaveTwiceDifferentiable(const Attention& attention, BiasGradients<A>& tables) {
  position::ForEachScheme([&]<class Scheme>() {
    if (Scheme::kHasGradientTangents) return;
    Scheme::ForEachGradient(attention, tables, [](const char*, auto& gradient, const auto*) { gradient.data = nullptr; });
  });
}

// A case with random tangents, some of them absent, and random gradients.
template <class T>
struct BackwardTangentCall {
  using A = Accum<T>;

  BackwardTangentCall(const reference::Case& c, uint64_t seed)
      : random(seed),
        setup(c, seed, random),
        q(Make(setup.QueryExtent(c.shape.head_dim), c, reference::Role::kInput)),
        k(Make(setup.KeyExtent(c.shape.head_dim), c, reference::Role::kKeyInput)),
        v(Make(setup.KeyExtent(c.shape.value_dim), c, reference::Role::kKeyInput)),
        d_out(Make(setup.QueryExtent(c.shape.value_dim), c, reference::Role::kInput)),
        t_q(Make(q.view.extent, c, reference::Role::kInput)),
        t_k(Make(k.view.extent, c, reference::Role::kKeyInput)),
        t_v(Make(v.view.extent, c, reference::Role::kKeyInput)),
        t_d_out(Make(d_out.view.extent, c, reference::Role::kInput)),
        out(d_out.view.extent, c.layout, random),
        t_out(d_out.view.extent, c.layout, random),
        t_d_q(q.view.extent, c.layout, random),
        t_d_k(k.view.extent, c.layout, random),
        t_d_v(v.view.extent, c.layout, random),
        remainder(d_out.view.extent, c.layout, random),
        t_tables(setup.attention),
        t_d_tables(setup.attention),
        exact_tables(setup.attention),
        rows{q.view.extent[0], q.view.extent[1], q.view.extent[2]} {
    for (bool& one : absent) one = random() % 5 == 0;
    reference::Normal normal;
    const auto draw = [&](reference::Numbers<A>& numbers) {
      numbers.Make(rows);
      for (A& number : numbers.memory) number = static_cast<A>(normal(random));
    };
    draw(d_lse), draw(t_d_lse);
    for (std::size_t t = 0; t < t_tables.tables.size(); ++t) {
      std::vector<A>& numbers = t_tables.tables[t].numbers.memory;
      for (A& number : numbers) number = static_cast<A>(normal(random));
      std::copy(numbers.begin(), numbers.end(), exact_tables.tables[t].numbers.memory.begin());
    }
    LeaveTwiceDifferentiable(setup.attention, t_tables.views);
    LeaveTwiceDifferentiable(setup.attention, exact_tables.views);
    LeaveTwiceDifferentiable(setup.attention, t_d_tables.views);
    if (absent[6]) t_tables.views = {}, exact_tables.views = {};
  }

  reference::Input<T> Make(const std::array<int64_t, 4>& extent, const reference::Case& c, reference::Role role) {
    return reference::MakeInput<T>(extent, c.layout, role, random);
  }

  template <class E, class Of>
  Tangents<E> TangentsBy(const Of& of, const BiasGradients<Accum<E>>& biases) const {
    Tangents<E> tangents;
    if (!absent[0]) tangents.q = of(t_q);
    if (!absent[1]) tangents.k = of(t_k);
    if (!absent[2]) tangents.v = of(t_v);
    tangents.biases = biases;
    return tangents;
  }
  reference::InputTangents Exact() const {
    const auto doubles = [](const reference::Input<T>& input) { return input.Doubles(); };
    reference::InputTangents tangents{TangentsBy<double>(doubles, exact_tables.views), {}, {}};
    if (!absent[3]) tangents.d_out = t_d_out.Doubles();
    if (!absent[5]) tangents.d_lse = t_d_lse.Exact();
    return tangents;
  }
  reference::RowGradients RowGradients() const {
    reference::RowGradients d_rows;
    if (!absent[4]) d_rows.lse = d_lse.Exact();
    return d_rows;
  }
  reference::Result Expected() const {
    return reference::Compute(setup.attention, q.Doubles(), k.Doubles(), v.Doubles(), d_out.Doubles(), RowGradients(), Exact());
  }

  static View<const A, 3> Read(const View<A, 3>& view) { return {view.data, view.extent, view.stride}; }
  View<const A, 3> RowsOf(const reference::Numbers<A>& numbers, bool left_out) const {
    return left_out ? View<const A, 3>() : View<const A, 3>::Contiguous(numbers.memory.data(), rows);
  }

  void Run(Executor& executor) {
    Workspace workspace;
    const Attention& attention = setup.attention;
    const Tangents<T> tangents = TangentsBy<T>([](const reference::Input<T>& input) { return input.view; }, t_tables.views);
    const View<A, 3> row_lse = lse.Make(rows), row_t_lse = t_lse.Make(rows), row_correction = correction.Make(rows);
    Tangent<T>(attention, q.view, k.view, v.view, tangents, out.view, t_out.view, row_lse, row_t_lse, workspace, executor);
    View<BFloat16, 4> rest;
    if (sizeof(T) == 2) rest = remainder.view;
    Forward<T>(attention, q.view, k.view, v.view, out.view, row_lse, workspace, executor, {}, rest, row_correction);
    const BackwardInputs<T> inputs{.q = q.view,
                                   .k = k.view,
                                   .v = v.view,
                                   .out = out.view,
                                   .lse = row_lse,
                                   .d_out = d_out.view,
                                   .d_lse = RowsOf(d_lse, absent[4]),
                                   .remainder = rest,
                                   .correction = absent[7] ? View<const A, 3>() : Read(row_correction)};
    const RowTangents<T> of_rows{.out = t_out.view,
                                 .lse = row_t_lse,
                                 .d_out = absent[3] ? View<const T, 4>() : t_d_out.view,
                                 .d_lse = RowsOf(t_d_lse, absent[5])};
    BackwardTangent<T>(attention, inputs, tangents, of_rows, t_d_q.view, t_d_k.view, t_d_v.view, t_d_tables.views, workspace,
                       executor);
  }

  std::mt19937_64 random;
  reference::Setup<A> setup;
  reference::Input<T> q, k, v, d_out, t_q, t_k, t_v, t_d_out;
  reference::Output<T> out, t_out, t_d_q, t_d_k, t_d_v;
  reference::Output<BFloat16> remainder;
  reference::TableGradients<A> t_tables, t_d_tables;
  reference::TableGradients<double> exact_tables;
  std::array<int64_t, 3> rows;
  reference::Numbers<A> lse, t_lse, correction, d_lse, t_d_lse;
  std::array<bool, 8> absent{};
};

// Calls visit(name, computed, expected, mass) for every array of a result.
template <class T, class Visit>
void ForEachTangent(const BackwardTangentCall<T>& call, const reference::Result& expected, const Visit& visit) {
  visit("t_dQ", call.t_d_q.Exact(), expected.d.q, expected.mass.q);
  visit("t_dK", call.t_d_k.Exact(), expected.d.k, expected.mass.k);
  visit("t_dV", call.t_d_v.Exact(), expected.d.v, expected.mass.v);
  for (const auto& [name, numbers] : call.t_d_tables.tables)
    if (IsTwiceDifferentiable(name)) visit(name, numbers.Exact(), expected.d.Of(name), expected.mass.Of(name));
}

}  // namespace heed

#endif  // HEED_TESTS_ENGINE_BACKWARD_TANGENT_CALL_H_
