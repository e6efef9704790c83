#include "dispatch/key_gradients.h"

#include <cstddef>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/operand.h"
#include "heed/element.h"
#include "heed/log_sum_exp.h"
#include "heed/portable_math.h"

namespace heed::dispatch {
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

}  // namespace

template <class T>
double KeyGradients<T>::Of(int64_t array_row, int64_t head, int64_t query, double score) const {
  const Row row{array_row, head, query};
  const auto at = [&](const auto& view) { return view(array_row, head, query); };
  const T lse = at(problem_.lse);
  if (lse == -std::numeric_limits<T>::infinity()) return 0;
  const double correction = problem_.correction.present() ? static_cast<double>(at(problem_.correction)) : 0;
  // As the forward pass took it, for large scores are rounded at their own size.
  const double weight =
      portable::Exp2(static_cast<double>(InPowersOfTwo<T>(score)) + static_cast<double>(MinusInPowersOfTwo(lse))) *
      (correction != 0 ? correction : 1);
  if (weight == 0) return 0;
  double gradient = -Delta(problem_.out, problem_.d_out, row);
  if (problem_.remainder.data) gradient -= Delta(problem_.remainder, problem_.d_out, row);
  if (problem_.d_lse.present()) gradient += static_cast<double>(at(problem_.d_lse));
  const StatisticGradients<T>& of = problem_.statistics;
  gradient -= Share(of.entropy, of.d_entropy, row) + Share(of.max_weight, of.d_max_weight, row) +
              Share(of.mean_distance, of.d_mean_distance, row);
  if (of.d_entropy.present()) gradient -= static_cast<double>(at(of.d_entropy)) * portable::Log(weight);
  if (of.d_max_weight.present() && at(of.largest_key) < 0) gradient += static_cast<double>(at(of.d_max_weight));
  return weight * gradient;
}

template class KeyGradients<float>;
template class KeyGradients<double>;

}  // namespace heed::dispatch
