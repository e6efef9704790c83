#include "reference/trial.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <sstream>
#include <vector>

#include "reference/reference.h"

namespace heed::reference {
namespace {

// An array with the layout of the case, and the same numbers as a contiguous array of doubles.
template <class T>
struct Input {
  std::vector<T> memory;
  View<const T, 4> view;
  std::vector<double> exact;

  View<const double, 4> Exact() const { return View<const double, 4>::Contiguous(exact.data(), view.extent); }
};

template <class T>
Input<T> MakeInput(std::array<int64_t, 4> extent, Layout layout, bool shareable, std::mt19937_64& random) {
  const auto [batch, heads, length, width] = extent;
  Input<T> input;
  input.view.extent = extent;
  int64_t start = 0;
  auto& stride = input.view.stride;
  stride = {heads * length * width, length * width, width, 1};
  if (layout == Layout::kHeadsInside) stride = {length * heads * width, width, heads * width, 1};
  if (layout == Layout::kSpread) stride = {2 * heads * length * width, 2 * length * width, 2 * width, 2};
  if (layout == Layout::kBackwards) {
    stride[2] = -width;
    start = std::max<int64_t>(0, (length - 1) * width);
  }
  if (layout == Layout::kShared && shareable) stride[0] = 0;
  std::normal_distribution<double> normal;
  input.memory.resize(static_cast<size_t>(2 * batch * heads * length * width + 1));
  for (T& value : input.memory) value = static_cast<T>(normal(random));
  input.view.data = input.memory.data() + start;
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < length; ++i)
        for (int64_t c = 0; c < width; ++c) input.exact.push_back(static_cast<double>(input.view(b, h, i, c)));
  if (input.exact.empty()) input.exact.push_back(0);  // an address for views without elements
  return input;
}

template <class T>
struct Output {
  std::vector<T> memory;
  template <int Rank>
  View<T, Rank> Make(std::array<int64_t, Rank> extent) {
    int64_t size = 1;
    for (int64_t e : extent) size *= e;
    memory.assign(static_cast<size_t>(size) + 1, std::numeric_limits<T>::quiet_NaN());
    return View<T, Rank>::Contiguous(memory.data(), extent);
  }
};

std::vector<int64_t> RandomLengths(int64_t count, int64_t limit, std::mt19937_64& random) {
  std::vector<int64_t> lengths(static_cast<size_t>(count) + 1);
  for (int64_t& length : lengths) length = static_cast<int64_t>(random() % static_cast<uint64_t>(limit + 1));
  if (count > 1) lengths[0] = 0;
  if (count > 2) lengths[1] = limit;
  return lengths;
}

double Worse(double worst, double value) { return std::isnan(worst) || std::isnan(value) ? NAN : std::max(worst, value); }

template <class T>
double GradientError(const std::vector<T>& computed, const std::vector<double>& expected, double dropout) {
  double largest = 1, error = 0;
  for (double e : expected) largest = std::max(largest, std::abs(e));
  for (size_t i = 0; i < expected.size(); ++i) error = Worse(error, std::abs(static_cast<double>(computed[i]) - expected[i]));
  return error * (1 - dropout) / (std::numeric_limits<T>::epsilon() * largest);
}

template <class T>
double OutputError(const std::vector<T>& computed, const Result& expected, const Case& c, const View<const double, 4>& v) {
  const Shape& s = c.shape;
  double worst = 0;
  int64_t row = 0;
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t h = 0; h < s.q_heads; ++h)
      for (int64_t i = 0; i < s.q_len; ++i, ++row)
        for (int64_t e = 0; e < s.value_dim; ++e) {
          double mass = 0;
          for (int64_t j = 0; j < s.kv_len; ++j)
            mass +=
                expected.weights[static_cast<size_t>(row * s.kv_len + j)] * std::abs(v(b, h / (s.q_heads / s.kv_heads), j, e));
          const auto at = static_cast<size_t>(row * s.value_dim + e);
          const double difference = std::abs(static_cast<double>(computed[at]) - expected.out[at]);
          const double unit = std::numeric_limits<T>::epsilon() * mass / (1 - c.dropout);
          worst = Worse(worst, difference == 0 ? 0 : difference / unit);
        }
  return worst;
}

template <class T>
double LseError(const std::vector<T>& computed, const std::vector<double>& expected) {
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto lse = static_cast<double>(computed[i]);
    if (std::isinf(expected[i]) || std::isinf(lse)) {
      if (lse != expected[i]) return NAN;
      continue;
    }
    worst =
        Worse(worst, std::abs(lse - expected[i]) / (std::numeric_limits<T>::epsilon() * std::max(1.0, std::abs(expected[i]))));
  }
  return worst;
}

}  // namespace

double TrialErrors::Largest() const {
  double worst = 0;
  for (double error : {out, lse, d_q, d_k, d_v, d_bias}) worst = Worse(worst, error);
  return worst;
}

std::string TrialErrors::Text() const {
  std::ostringstream text;
  text << "out " << out << ", lse " << lse << ", dQ " << d_q << ", dK " << d_k << ", dV " << d_v << ", dBias " << d_bias
       << " eps";
  return text.str();
}

template <class T>
TrialErrors RunTrial(const Case& c, uint64_t seed, Executor& executor) {
  std::mt19937_64 random(seed);
  const Shape& s = c.shape;
  const auto q = MakeInput<T>({s.batch, s.q_heads, s.q_len, s.head_dim}, c.layout, false, random);
  const auto k = MakeInput<T>({s.batch, s.kv_heads, s.kv_len, s.head_dim}, c.layout, true, random);
  const auto v = MakeInput<T>({s.batch, s.kv_heads, s.kv_len, s.value_dim}, c.layout, true, random);
  const auto d_out = MakeInput<T>({s.batch, s.q_heads, s.q_len, s.value_dim}, c.layout, false, random);

  Attention attention;
  attention.scale = c.scale;
  attention.causal = c.causal;
  attention.empty_row = c.empty_row;
  attention.query_positions.offset = c.query_offset;
  attention.key_positions.offset = c.key_offset;
  attention.dropout = {c.dropout, seed * 7919 + 1, 3};
  const std::vector<int64_t> query_lengths = RandomLengths(s.batch, s.q_len, random);
  const bool per_query = c.key_lengths == LengthKind::kPerQuery;
  const std::vector<int64_t> key_lengths = RandomLengths(s.batch * (per_query ? s.q_len : 1), s.kv_len, random);
  if (c.query_lengths) attention.query_lengths = Lengths::PerBatch(query_lengths.data(), s.batch);
  if (c.key_lengths == LengthKind::kPerBatch) attention.key_lengths = Lengths::PerBatch(key_lengths.data(), s.batch);
  if (per_query) attention.key_lengths = Lengths::PerQuery(key_lengths.data(), s.batch, s.q_len);
  const int64_t columns = 2 * c.max_distance + 1;
  const Input<T> bias = MakeInput<T>({1, 1, s.q_heads, std::max<int64_t>(1, columns)}, Layout::kContiguous, false, random);
  if (c.max_distance >= 0)
    attention.relative_bias = RelativeBias{View<const T, 2>::Contiguous(bias.memory.data(), {s.q_heads, columns})};

  Output<T> out, lse, d_q, d_k, d_v, d_bias;
  const auto out_view = out.template Make<4>({s.batch, s.q_heads, s.q_len, s.value_dim});
  const auto lse_view = lse.template Make<3>({s.batch, s.q_heads, s.q_len});
  Workspace workspace;
  Forward(attention, q.view, k.view, v.view, out_view, lse_view, workspace, executor);
  Backward(attention, q.view, k.view, v.view, out_view, lse_view, d_out.view, d_q.template Make<4>(q.view.extent),
           d_k.template Make<4>(k.view.extent), d_v.template Make<4>(v.view.extent),
           c.max_distance >= 0 ? d_bias.template Make<2>({s.q_heads, columns}) : View<T, 2>{}, workspace, executor);

  const Result expected = Compute(attention, q.Exact(), k.Exact(), v.Exact(), d_out.Exact());
  TrialErrors errors;
  errors.out = OutputError(out.memory, expected, c, v.Exact());
  errors.lse = LseError(lse.memory, expected.lse);
  errors.d_q = GradientError(d_q.memory, expected.d_q, c.dropout);
  errors.d_k = GradientError(d_k.memory, expected.d_k, c.dropout);
  errors.d_v = GradientError(d_v.memory, expected.d_v, c.dropout);
  if (c.max_distance >= 0) errors.d_bias = GradientError(d_bias.memory, expected.d_relative_bias, c.dropout);
  return errors;
}

template TrialErrors RunTrial<float>(const Case&, uint64_t, Executor&);
template TrialErrors RunTrial<double>(const Case&, uint64_t, Executor&);

}  // namespace heed::reference
