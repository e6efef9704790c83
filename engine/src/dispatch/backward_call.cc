// The backward pass: plan, memory, workers, final sums. No SIMD here.
#include <cstddef>
#include <cstring>
#include <limits>
#include <type_traits>

#include "attention/problem.h"
#include "dispatch/calls.h"
#include "dispatch/kernels.h"
#include "dispatch/layouts.h"
#include "heed/element.h"
#include "heed/log_sum_exp.h"
#include "heed/portable_math.h"

namespace heed::dispatch {

using attention::Cut;
using attention::WantedOperands;

namespace {

// A row of lse, by its place in the arrays.
struct Row {
  int64_t array_row, head, query;
};

template <class E>
double ElementAt(const std::byte* data, int64_t index) {
  E element;
  std::memcpy(&element, data + index * static_cast<int64_t>(sizeof(E)), sizeof(E));
  if constexpr (std::is_floating_point_v<E>) return element;
  if constexpr (!std::is_floating_point_v<E>) return static_cast<double>(ToFloat(element));
}

double Number(const core::Input& operand, const Row& row, int64_t c) {
  const int64_t index =
      row.array_row * operand.stride[0] + row.head * operand.stride[1] + row.query * operand.stride[2] + c * operand.stride[3];
  switch (operand.element) {
    case core::Element::kFloat32:
      return ElementAt<float>(operand.data, index);
    case core::Element::kFloat64:
      return ElementAt<double>(operand.data, index);
    case core::Element::kBFloat16:
      return ElementAt<BFloat16>(operand.data, index);
    case core::Element::kFloat16:
      return ElementAt<Float16>(operand.data, index);
  }
  return 0;
}

double Delta(const core::Input& out, const core::Input& d_out, const Row& row) {
  double sum = 0;
  for (int64_t c = 0; c < out.extent[3]; ++c) sum += Number(out, row, c) * Number(d_out, row, c);
  return sum;
}

// What a statistic takes off the gradients of all weights of a row, and 0 where it has no gradient.
template <class T>
double Share(const View<const T, 3>& statistic, const View<const T, 3>& gradient, const Row& row) {
  if (!gradient.present()) return 0;
  const double d = static_cast<double>(gradient(row.array_row, row.head, row.query));
  return d == 0 ? 0 : d * static_cast<double>(statistic(row.array_row, row.head, row.query));
}

// The gradient of the score of a row's key without a value: with its weight p = exp(score - lse), p times -delta and what the
// log-sum-exp and statistics add (attention/statistic_terms-inl.h). It meets no value, and its distance is 0.
template <class T>
double KeyGradient(const attention::BackwardProblem<T>& problem, int64_t array_row, int64_t head, int64_t query, double score) {
  const Row row{array_row, head, query};
  const auto at = [&](const auto& view) { return view(array_row, head, query); };
  const T lse = at(problem.lse);
  if (lse == -std::numeric_limits<T>::infinity()) return 0;
  const double correction = problem.correction.present() ? static_cast<double>(at(problem.correction)) : 0;
  // As the forward pass took it, for large scores are rounded at their own size.
  const double weight =
      portable::Exp2(static_cast<double>(InPowersOfTwo<T>(score)) + static_cast<double>(MinusInPowersOfTwo(lse))) *
      (correction != 0 ? correction : 1);
  if (weight == 0) return 0;
  double gradient = -Delta(problem.out, problem.d_out, row);
  if (problem.remainder.data) gradient -= Delta(problem.remainder, problem.d_out, row);
  if (problem.d_lse.present()) gradient += static_cast<double>(at(problem.d_lse));
  const StatisticGradients<T>& of = problem.statistics;
  gradient -= Share(of.entropy, of.d_entropy, row) + Share(of.max_weight, of.d_max_weight, row) +
              Share(of.mean_distance, of.d_mean_distance, row);
  if (of.d_entropy.present()) gradient -= static_cast<double>(at(of.d_entropy)) * portable::Log(weight);
  if (of.d_max_weight.present() && at(of.largest_key) < 0) gradient += static_cast<double>(at(of.d_max_weight));
  return weight * gradient;
}

}  // namespace

template <class T>
void RunBackward(const Attention& attention, const BackwardArrays<T>& arrays, Workspace& workspace, Executor& executor) {
  const Shape shape = CheckBackward(attention, arrays);
  const position::HiddenByScheme hidden(attention, shape);
  const attention::Plan plan(attention, shape, hidden);
  const Cut cut = attention::CutBackward(shape, sizeof(T), position::LimitsOf(attention));
  const WantedOperands wanted = WantedOperands::Of(arrays.d_q, arrays.d_k, arrays.d_v);
  const bool tangents = arrays.tangents.wanted;
  BackwardLayout<T> layout(attention, cut, shape, ElementsOf<T>(arrays.q), wanted, arrays.d_biases, core::Concurrency(executor),
                           tangents ? &arrays.scheme_tangents : nullptr);
  // Keys without values meet no tile.
  const bool tiles = wanted.any() || layout.schemes().sums() > 0;
  if (!tiles && layout.schemes().key_sums() == 0) return;
  CallMemory memory = layout.Memory();
  memory.Reserve(workspace);
  core::Arena arena(memory.shared());
  const attention::BackwardSums<T> sums = layout.LayShared(arena);
  const position::SchemeSet<T>& schemes = layout.schemes();
  schemes.Prepare();
  const double work = (tangents ? kBackwardTangentWork : kBackwardWork) * ScoreWork(shape, shape.kv_len);
  const auto for_each_sum = [&](const auto& visit) {
    memory.Run(executor, work, schemes.sums(),
               [&](core::TaskQueue& queue, std::byte*) { queue.Work([&](int64_t sum, int64_t) { visit(sum); }); });
  };
  for_each_sum([&](int64_t sum) { schemes.Clear(sum); });

  const attention::ValuelessKey key = position::KeyOfSchemes<T>(attention);
  attention::BackwardProblem<T> problem{attention::ProblemOf(attention, plan, cut, arrays.q, arrays.k, key, tangents), arrays,
                                        sums};
  problem.wants_scores = wanted.queries || wanted.keys || schemes.wants_scores();
  if (const int64_t keys = schemes.key_sums(); keys > 0) {
    const attention::ValuelessKeyGradients gradients{
        arrays.lse.extent[0], arrays.lse.extent[2],
        [&](int64_t row, int64_t head, int64_t query, double score) { return KeyGradient(problem, row, head, query, score); }};
    memory.Run(executor, work, keys, [&](core::TaskQueue& queue, std::byte*) {
      queue.Work([&](int64_t sum, int64_t) { schemes.SumKey(gradients, sum); });
    });
  }
  if (!tiles) return;
  BackwardTasks& tasks = layout.tasks();
  tasks.Sort(plan);
  const BackwardCall<T> call{problem, schemes, layout.facts()};
  const BackwardKernels<T> kernels = BackwardKernelsInUse<T>();
  memory.Run(executor, work, tasks.count(),
             [&](core::TaskQueue& queue, std::byte* scratch) { kernels.backward(call, tasks, queue, scratch); });
  if (const FinishTasks finish = layout.finish(); finish.count() > 0)
    memory.Run(executor, work, finish.count(),
               [&](core::TaskQueue& queue, std::byte*) { kernels.finish(call, finish, queue); });
  for_each_sum([&](int64_t sum) { schemes.Finish(sum); });
}

template void RunBackward(const Attention&, const BackwardArrays<float>&, Workspace&, Executor&);
template void RunBackward(const Attention&, const BackwardArrays<double>&, Workspace&, Executor&);

}  // namespace heed::dispatch
