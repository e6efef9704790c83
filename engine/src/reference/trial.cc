#include "reference/trial.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <sstream>
#include <vector>

#include "reference/reference.h"

namespace heed::reference {
namespace {

template <class T>
T Rounded(double value) {
  if constexpr (std::is_same_v<T, BFloat16>) return ToBFloat16(static_cast<float>(value));
  if constexpr (std::is_same_v<T, Float16>) return ToFloat16(static_cast<float>(value));
  if constexpr (std::is_floating_point_v<T>) return static_cast<T>(value);
}

template <class T>
double Exact(T value) {
  if constexpr (std::is_floating_point_v<T>) return static_cast<double>(value);
  if constexpr (!std::is_floating_point_v<T>) return static_cast<double>(ToFloat(value));
}

template <class T>
double Epsilon() {
  if constexpr (std::is_same_v<T, BFloat16>) return 0x1p-7;
  if constexpr (std::is_same_v<T, Float16>) return 0x1p-10;
  if constexpr (std::is_floating_point_v<T>) return std::numeric_limits<T>::epsilon();
}

// An array with the layout of the case, and the same numbers as a contiguous array of doubles.
template <class T>
struct Input {
  std::vector<T> memory;
  View<const T, 4> view;
  std::vector<double> exact;

  View<const double, 4> Doubles() const { return View<const double, 4>::Contiguous(exact.data(), view.extent); }
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
  for (T& value : input.memory) value = Rounded<T>(normal(random));
  input.view.data = input.memory.data() + start;
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < length; ++i)
        for (int64_t c = 0; c < width; ++c) input.exact.push_back(Exact(input.view(b, h, i, c)));
  if (input.exact.empty()) input.exact.push_back(0);  // an address for views without elements
  return input;
}

template <class T>
struct Output {
  std::vector<T> memory;
  template <std::size_t Rank>
  View<T, static_cast<int>(Rank)> Make(std::array<int64_t, Rank> extent) {
    int64_t size = 1;
    for (int64_t e : extent) size *= e;
    memory.assign(static_cast<size_t>(size) + 1, Rounded<T>(std::numeric_limits<double>::quiet_NaN()));
    return View<T, static_cast<int>(Rank)>::Contiguous(memory.data(), extent);
  }
};

std::vector<int64_t> RandomLengths(int64_t count, int64_t limit, std::mt19937_64& random) {
  std::vector<int64_t> lengths(static_cast<size_t>(count) + 1);
  for (int64_t& length : lengths) length = static_cast<int64_t>(random() % static_cast<uint64_t>(limit + 1));
  if (count > 1) lengths[0] = 0;
  if (count > 2) lengths[1] = limit;
  return lengths;
}

// The memory behind an Attention, with everything that a case asks for. A is the accumulation type.
template <class A>
class Setup {
 public:
  Setup(const Case& c, uint64_t seed, std::mt19937_64& random) : case_(c), random_(random) {
    attention.scale = c.scale;
    attention.causal = c.causal;
    attention.window = c.window;
    attention.empty_row = c.empty_row;
    attention.softcap = c.softcap;
    attention.query_positions.offset = c.query_offset;
    attention.key_positions.offset = c.key_offset;
    attention.dropout = {c.dropout, seed * 7919 + 1, 3};
    if (c.packed) Pack();
    Measure();
    ListPositions();
    AddBiases();
  }
  Setup(const Setup&) = delete;
  Setup& operator=(const Setup&) = delete;

  Attention attention;
  std::array<int64_t, 4> QueryExtent(int64_t width) const { return {rows_, case_.shape.q_heads, queries_, width}; }
  std::array<int64_t, 4> KeyExtent(int64_t width) const { return {rows_, case_.shape.kv_heads, keys_, width}; }

 private:
  void Pack() {
    const Shape& s = case_.shape;
    rows_ = 1;
    const auto cumulate = [&](int64_t limit, std::vector<int64_t>& offsets) {
      offsets = {0};
      for (int64_t b = 0; b < s.batch; ++b)
        offsets.push_back(offsets.back() +
                          (b == 0 ? limit : static_cast<int64_t>(random_() % static_cast<uint64_t>(limit + 1))));
      return offsets.back();
    };
    queries_ = cumulate(s.q_len, query_offsets_);
    keys_ = cumulate(s.kv_len, key_offsets_);
    attention.packed.query_offsets = View<const int64_t, 1>::Contiguous(query_offsets_.data(), {s.batch + 1});
    attention.packed.key_offsets = View<const int64_t, 1>::Contiguous(key_offsets_.data(), {s.batch + 1});
  }

  void Measure() {
    const Shape& s = case_.shape;
    query_lengths_ = RandomLengths(s.batch, s.q_len, random_);
    const bool per_query = case_.key_lengths == LengthKind::kPerQuery;
    key_lengths_ = RandomLengths(s.batch * (per_query ? s.q_len : 1), s.kv_len, random_);
    prefix_lengths_ = RandomLengths(s.batch, s.kv_len, random_);
    if (case_.query_lengths) attention.query_lengths = Lengths::PerBatch(query_lengths_.data(), s.batch);
    if (case_.key_lengths == LengthKind::kPerBatch) attention.key_lengths = Lengths::PerBatch(key_lengths_.data(), s.batch);
    if (per_query) attention.key_lengths = Lengths::PerQuery(key_lengths_.data(), s.batch, s.q_len);
    if (case_.prefix) attention.prefix_lengths = Lengths::PerBatch(prefix_lengths_.data(), s.batch);
  }

  void ListPositions() {
    if (case_.positions == PositionKind::kNone) return;
    const Shape& s = case_.shape;
    const int64_t lists = case_.positions == PositionKind::kShuffled ? s.batch : 1;
    const auto list = [&](int64_t count, std::vector<int64_t>& whole, std::vector<double>& real, Positions& positions) {
      for (int64_t b = 0; b < lists; ++b) {
        int64_t at = -20;
        for (int64_t t = 0; t < count; ++t) whole.push_back(at += static_cast<int64_t>(random_() % 3));
        if (lists > 1) std::shuffle(whole.end() - count, whole.end(), random_);
      }
      for (int64_t p : whole) real.push_back(0.37 * static_cast<double>(p));
      whole.push_back(0);
      real.push_back(0);
      positions.offset.reset();
      if (case_.positions == PositionKind::kReal) {
        positions.list = View<const double, 2>::Contiguous(real.data(), {lists, count});
      } else {
        positions.list = View<const int64_t, 2>::Contiguous(whole.data(), {lists, count});
      }
    };
    list(s.q_len, whole_queries_, real_queries_, attention.query_positions);
    list(s.kv_len, whole_keys_, real_keys_, attention.key_positions);
  }

  template <int Rank>
  View<const A, Rank> Random(std::vector<A>& memory, const std::array<int64_t, Rank>& extent) {
    std::normal_distribution<double> normal;
    int64_t size = 1;
    for (int64_t e : extent) size *= e;
    memory.resize(static_cast<size_t>(size) + 1);
    for (A& x : memory) x = static_cast<A>(normal(random_));
    return View<const A, Rank>::Contiguous(memory.data(), extent);
  }

  void AddBiases() {
    const Shape& s = case_.shape;
    if (case_.max_distance >= 0)
      attention.relative_bias = RelativeBias{Random<2>(relative_, {s.q_heads, 2 * case_.max_distance + 1})};
    if (case_.slopes) {
      const View<const A, 1> slopes = Random<1>(slopes_, {s.q_heads});
      for (A& slope : slopes_) slope = std::abs(slope) * static_cast<A>(0.1);
      attention.slope_bias = SlopeBias{slopes, case_.symmetric};
    }
    if (case_.content_distance >= 0) {
      const int64_t rows = 2 * case_.content_distance + 1;
      attention.content_bias.emplace();
      if (case_.content_keys) attention.content_bias->keys = Random<2>(content_keys_, {rows, s.head_dim});
      if (case_.content_values) attention.content_bias->values = Random<2>(content_values_, {rows, s.value_dim});
      if (case_.content_queries) attention.content_bias->queries = Random<2>(content_queries_, {rows, s.head_dim});
    }
    const auto extent = [&](int ones) {
      std::array<int64_t, 4> full{s.batch, s.q_heads, s.q_len, s.kv_len};
      for (int r = 0; r < 4; ++r)
        if (ones >> r & 1) full[static_cast<size_t>(r)] = 1;
      return full;
    };
    if (case_.bias != kNoDense) {
      const View<const A, 4> bias = Random<4>(bias_, extent(case_.bias));
      for (size_t x = 0; case_.hiding_bias && x < bias_.size(); ++x)
        if (random_() % 5 == 0) bias_[x] = -std::numeric_limits<A>::infinity();
      attention.bias = Bias{bias};
    }
    if (case_.mask == kNoDense) return;
    const auto full = extent(case_.mask);
    const int64_t size = full[0] * full[1] * full[2] * full[3];
    mask_ = std::make_unique<bool[]>(static_cast<size_t>(size) + 1);
    for (int64_t x = 0; x < size; ++x) mask_[static_cast<size_t>(x)] = random_() % 3 != 0;
    attention.mask = Mask{View<const bool, 4>::Contiguous(mask_.get(), full)};
  }

  const Case& case_;
  std::mt19937_64& random_;
  int64_t rows_ = case_.shape.batch, queries_ = case_.shape.q_len, keys_ = case_.shape.kv_len;
  std::vector<int64_t> query_offsets_, key_offsets_, query_lengths_, key_lengths_, prefix_lengths_, whole_queries_, whole_keys_;
  std::vector<double> real_queries_, real_keys_;
  std::vector<A> relative_, slopes_, content_keys_, content_values_, content_queries_, bias_;
  std::unique_ptr<bool[]> mask_;
};

double Worse(double worst, double value) { return std::isnan(worst) || std::isnan(value) ? NAN : std::max(worst, value); }

// eps: that of the elements of the call; where those are narrow, all gradients inherit the rounding of the output.
template <class T>
double GradientError(const std::vector<T>& computed, const std::vector<double>& expected, double eps, double dropout,
                     const std::vector<double>& mass = {}) {
  double largest = 1, error = 0;
  for (double e : mass.empty() ? expected : mass) largest = std::max(largest, std::abs(e));
  for (size_t i = 0; i < expected.size(); ++i) error = Worse(error, std::abs(Exact(computed[i]) - expected[i]));
  return error * (1 - dropout) / (eps * largest);
}

// For each element of the output, what its rounding is measured by: sum_j p[j] |what key j gives|.
template <class T>
double OutputError(const std::vector<T>& computed, const Result& expected, const Result& mass, double dropout) {
  double worst = 0;
  for (size_t x = 0; x < expected.out.size(); ++x) {
    const double difference = std::abs(Exact(computed[x]) - expected.out[x]);
    const double unit = Epsilon<T>() * mass.out[x] / (1 - dropout);
    worst = Worse(worst, difference == 0 ? 0 : difference / unit);
  }
  return worst;
}

template <class T>
double RowError(const std::vector<T>& computed, const std::vector<double>& expected) {
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double value = Exact(computed[i]);
    if (std::isinf(expected[i]) || std::isinf(value)) {
      if (value != expected[i]) return NAN;
      continue;
    }
    worst = Worse(worst, std::abs(value - expected[i]) / (Epsilon<T>() * std::max(1.0, std::abs(expected[i]))));
  }
  return worst;
}

// The forward pass with absolute values and without dropout: what an output's rounding is measured by.
template <class A>
Result Mass(const Attention& attention, const View<const double, 4>& q, const View<const double, 4>& k,
            const std::vector<double>& values, const std::array<int64_t, 4>& extent) {
  std::vector<double> absolute(values);
  for (double& value : absolute) value = std::abs(value);
  Attention undropped = attention;
  undropped.dropout.probability = 0;
  std::vector<A> table;
  if (attention.content_bias && attention.content_bias->values) {
    std::visit(
        [&](const auto& view) {
          for (int64_t r = 0; r < view.extent[0]; ++r)
            for (int64_t c = 0; c < view.extent[1]; ++c) table.push_back(static_cast<A>(std::abs(view(r, c))));
          table.push_back(0);
          undropped.content_bias->values = View<const A, 2>::Contiguous(table.data(), view.extent);
        },
        *attention.content_bias->values);
  }
  return Compute(undropped, q, k, View<const double, 4>::Contiguous(absolute.data(), extent));
}

}  // namespace

double TrialErrors::Largest() const {
  double worst = 0;
  for (const auto& [name, error] : of) worst = Worse(worst, error);
  return worst;
}

std::string TrialErrors::Text() const {
  std::ostringstream text;
  for (const auto& [name, error] : of) text << name << " " << error << ", ";
  text << "in eps";
  return text.str();
}

template <class T>
TrialErrors RunTrial(const Case& c, uint64_t seed, Executor& executor) {
  using A = Accum<T>;
  std::mt19937_64 random(seed);
  const Shape& s = c.shape;
  const Setup<A> setup(c, seed, random);
  const Attention& attention = setup.attention;
  const auto q = MakeInput<T>(setup.QueryExtent(s.head_dim), c.layout, false, random);
  const auto k = MakeInput<T>(setup.KeyExtent(s.head_dim), c.layout, true, random);
  const auto v = MakeInput<T>(setup.KeyExtent(s.value_dim), c.layout, true, random);
  const auto d_out = MakeInput<T>(setup.QueryExtent(s.value_dim), c.layout, false, random);

  Output<T> out, d_q, d_k, d_v;
  Output<A> lse, entropy, max_weight, mean_distance, d_bias, d_relative, d_slopes, d_content_keys, d_content_values,
      d_content_queries;
  const auto out_view = out.Make(setup.QueryExtent(s.value_dim));
  const std::array<int64_t, 3> rows{q.view.extent[0], q.view.extent[1], q.view.extent[2]};
  const auto lse_view = lse.Make(rows);
  BiasGradients<A> d_biases;
  const auto like = [](Output<A>& gradient, auto& view, const auto& table) {
    view = std::visit([&](const auto& t) { return gradient.Make(t.extent); }, table);
  };
  if (attention.bias) like(d_bias, d_biases.bias, attention.bias->values);
  if (attention.relative_bias) like(d_relative, d_biases.relative_bias, attention.relative_bias->table);
  if (attention.slope_bias) like(d_slopes, d_biases.slopes, attention.slope_bias->slopes);
  if (attention.content_bias && attention.content_bias->keys)
    like(d_content_keys, d_biases.content_keys, *attention.content_bias->keys);
  if (attention.content_bias && attention.content_bias->values)
    like(d_content_values, d_biases.content_values, *attention.content_bias->values);
  if (attention.content_bias && attention.content_bias->queries)
    like(d_content_queries, d_biases.content_queries, *attention.content_bias->queries);

  Workspace workspace;
  Forward<T>(attention, q.view, k.view, v.view, out_view, lse_view, workspace, executor,
             {entropy.Make(rows), max_weight.Make(rows), mean_distance.Make(rows)});
  Backward<T>(attention, q.view, k.view, v.view, out_view, lse_view, d_out.view, d_q.Make(q.view.extent),
              d_k.Make(k.view.extent), d_v.Make(v.view.extent), d_biases, workspace, executor);

  const Result expected = Compute(attention, q.Doubles(), k.Doubles(), v.Doubles(), d_out.Doubles());
  const Result mass = Mass<A>(attention, q.Doubles(), k.Doubles(), v.exact, v.view.extent);
  TrialErrors errors;
  errors.of = {{"out", OutputError(out.memory, expected, mass, c.dropout)},
               {"lse", RowError(lse.memory, expected.lse)},
               {"entropy", RowError(entropy.memory, expected.entropy)},
               {"max_weight", RowError(max_weight.memory, expected.max_weight)},
               {"mean_distance", RowError(mean_distance.memory, expected.mean_distance)},
               {"dQ", GradientError(d_q.memory, expected.d_q, Epsilon<T>(), c.dropout)},
               {"dK", GradientError(d_k.memory, expected.d_k, Epsilon<T>(), c.dropout)},
               {"dV", GradientError(d_v.memory, expected.d_v, Epsilon<T>(), c.dropout)},
               {"dBias", GradientError(d_bias.memory, expected.d_bias, Epsilon<T>(), c.dropout)},
               {"dRelativeBias", GradientError(d_relative.memory, expected.d_relative_bias, Epsilon<T>(), c.dropout)},
               {"dSlopes", GradientError(d_slopes.memory, expected.d_slopes, Epsilon<T>(), c.dropout, expected.slope_mass)},
               {"dContentKeys", GradientError(d_content_keys.memory, expected.d_content_keys, Epsilon<T>(), c.dropout,
                                              expected.content_key_mass)},
               {"dContentValues", GradientError(d_content_values.memory, expected.d_content_values, Epsilon<T>(), c.dropout,
                                                expected.content_value_mass)},
               {"dContentQueries", GradientError(d_content_queries.memory, expected.d_content_queries, Epsilon<T>(), c.dropout,
                                                 expected.content_query_mass)}};
  return errors;
}

template TrialErrors RunTrial<float>(const Case&, uint64_t, Executor&);
template TrialErrors RunTrial<double>(const Case&, uint64_t, Executor&);
template TrialErrors RunTrial<BFloat16>(const Case&, uint64_t, Executor&);
template TrialErrors RunTrial<Float16>(const Case&, uint64_t, Executor&);

}  // namespace heed::reference
