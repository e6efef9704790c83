// A program written for the engine of version 0.1.0: every public name of its headers as a user has it, with the argument
// lists, fields, enumerators and defaults of that release, and a few results. It compiles and runs with the installed package
// of today.
//
// Whoever finds this file in the way is breaking programs of users. It is edited only together with a line under "Changed" or
// "Removed" of a new minor version in CHANGELOG.md; docs/compatibility.md says what may change when.
#include <heed/attention.h>
#include <heed/cache.h>
#include <heed/dropout.h>
#include <heed/element.h>
#include <heed/error.h>
#include <heed/executor.h>
#include <heed/positions.h>
#include <heed/rotary.h>
#include <heed/view.h>
#include <heed/workspace.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <exception>
#include <numbers>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

namespace {

int faults = 0;

void Check(bool holds, const char* what) {
  if (holds) return;
  std::printf("engine of 0.1.0: %s\n", what);
  ++faults;
}

bool Near(double a, double b) { return std::abs(a - b) < 1e-5; }

bool Near(const std::vector<float>& a, const std::vector<double>& b) {
  if (a.size() < b.size()) return false;
  for (std::size_t i = 0; i < b.size(); ++i) {
    if (!Near(a[i], b[i])) return false;
  }
  return true;
}

template <class F>
bool Refuses(F&& call) {
  try {
    call();
  } catch (const heed::InvalidArgument& error) {
    return std::string(error.what()).size() > 0;
  }
  return false;
}

// A task runner of the user's own.
class Backwards final : public heed::Executor {
 public:
  void ParallelFor(int64_t tasks, heed::FunctionRef<void(int64_t)> task) override {
    for (int64_t i = tasks; i-- > 0;) task(i);
  }
  int concurrency() const override { return 1; }
};

void UseViewsElementsErrors() {
  float data[6] = {0, 1, 2, 3, 4, 5};
  const auto view = heed::View<float, 2>::Contiguous(data, {2, 3});
  const heed::View<float, 2> transposed{data, {3, 2}, {1, 3}};
  const heed::View<const float, 2> constant = view;
  Check(view.present() && view.size() == 6 && view(1, 2) == 5 && transposed(2, 1) == 5 && constant(0, 1) == 1, "View");
  Check(view.data == data && view.extent[1] == 3 && view.stride[0] == 3 && !heed::View<float, 2>().present(), "View's members");

  const heed::BFloat16 narrow = heed::ToBFloat16(1.5f);
  const heed::Float16 half = heed::ToFloat16(1.5f);
  Check(narrow.bits == 0x3fc0 && half.bits == 0x3e00 && heed::ToFloat(narrow) == 1.5f && heed::ToFloat(half) == 1.5f,
        "elements");
  static_assert(std::is_same_v<heed::Accum<heed::BFloat16>, float> && std::is_same_v<heed::Accum<double>, double>);
  static_assert(std::is_same_v<heed::Accumulator<float>::Type, float>);

  static_assert(std::is_base_of_v<std::exception, heed::Error> && std::is_base_of_v<heed::Error, heed::InvalidArgument>);
  static_assert(std::is_base_of_v<heed::Error, heed::FileError>);
  Check(std::string(heed::FileError("a").what()) == "a" && std::string(heed::Error("b").what()) == "b", "errors");
}

void UseExecutorsAndWorkspaces() {
  std::atomic<int64_t> sum = 0;
  const auto add = [&](int64_t i) { sum += i; };
  heed::SerialExecutor serial;
  heed::ThreadPool pool(2);
  heed::ThreadPool any;
  Backwards backwards;
  heed::Executor* const executors[] = {&serial, &pool, &any, &backwards, &heed::ThreadPool::Default()};
  for (heed::Executor* executor : executors) executor->ParallelFor(5, add);
  Check(sum == 50 && serial.concurrency() == 1 && pool.concurrency() == 2, "executors");
  Check(heed::AvailableThreads() >= 1, "AvailableThreads");
  int64_t doubled = 0;
  const auto twice = [&](int64_t x) { return doubled = 2 * x; };
  const heed::FunctionRef<int64_t(int64_t)> reference(twice);
  Check(reference(4) == 8 && doubled == 8, "FunctionRef");

  heed::Workspace workspace(100);
  workspace.Reserve(200);
  Check(workspace.size() >= 200 && workspace.data() != nullptr, "Workspace");
  Check(reinterpret_cast<uintptr_t>(workspace.data()) % heed::Workspace::kAlignment == 0, "Workspace::kAlignment");
  workspace.Release();
  Check(workspace.size() == 0 && heed::Workspace().size() == 0, "Workspace::Release");
}

void CheckDefaults() {
  const heed::Attention attention;
  Check(!attention.scale && attention.causal == heed::Causal::kNone && !attention.softcap, "scale, causal, softcap");
  Check(attention.window.left == -1 && attention.window.right == -1 && !attention.window.present(), "window");
  Check(!attention.query_lengths.present() && !attention.key_lengths.present() && !attention.prefix_lengths.present(),
        "lengths");
  Check(!attention.packed.present() && !attention.mask.present(), "packed, mask");
  Check(!attention.query_positions.present() && !attention.key_positions.listed() && !attention.key_positions.offset,
        "positions");
  Check(!attention.bias && !attention.relative_bias && !attention.slope_bias && !attention.content_bias, "biases");
  Check(attention.dropout.probability == 0.0 && attention.dropout.seed == 0 && attention.dropout.batch_offset == 0, "dropout");
  Check(attention.empty_row == heed::EmptyRow::kZero && heed::SlopeBias().symmetric, "empty_row, symmetric");
  const heed::Shape shape;
  Check(shape.batch + shape.q_heads + shape.kv_heads + shape.q_len + shape.kv_len + shape.head_dim + shape.value_dim == 0,
        "Shape");
}

// Queries and keys are 0, so that weights are those of masks and biases alone; values are 1, 2, 4: [1, 2, 3, 2] and [1, 2, 3,
// 1].
struct Call {
  std::vector<float> q = std::vector<float>(12), k = q, v{1, 2, 4, 1, 2, 4}, out = std::vector<float>(6), lse = out;

  heed::View<const float, 4> Wide(const std::vector<float>& x) const {
    return heed::View<const float, 4>::Contiguous(x.data(), {1, 2, 3, 2});
  }
  heed::View<const float, 4> V() const { return heed::View<const float, 4>::Contiguous(v.data(), {1, 2, 3, 1}); }
  heed::View<float, 4> Out() { return heed::View<float, 4>::Contiguous(out.data(), {1, 2, 3, 1}); }
  heed::View<float, 3> Lse() { return heed::View<float, 3>::Contiguous(lse.data(), {1, 2, 3}); }
};

std::vector<float> Attend(const heed::Attention& attention) {
  Call call;
  heed::Forward(attention, call.Wide(call.q), call.Wide(call.k), call.V(), call.Out());
  return call.out;
}

template <class T, int Rank>
heed::View<const T, Rank> Of(const T* data, const std::array<int64_t, Rank>& extent) {
  return heed::View<const T, Rank>::Contiguous(data, extent);
}

constexpr double kMean = 7.0 / 3;

void UseMasks() {
  heed::Attention attention;
  Check(Near(Attend(attention), {kMean, kMean, kMean}), "attention");
  attention.scale = 0.5;
  attention.softcap = 5.0;
  for (const heed::Causal causal : {heed::Causal::kBottomRight, heed::Causal::kTopLeft}) {
    attention.causal = causal;
    Check(Near(Attend(attention), {1, 1.5, kMean}), "causal");
  }
  const int64_t all[] = {3}, one[] = {1}, none[] = {0}, growing[] = {1, 2, 3};
  attention.prefix_lengths = heed::Lengths::PerBatch(all, 1);
  Check(Near(Attend(attention), {kMean, kMean, kMean}), "prefix_lengths");

  attention = {};
  attention.window = {0, 0};
  Check(attention.window.present() && Near(Attend(attention), {1, 2, 4}), "window");
  attention = {};
  attention.query_lengths = heed::Lengths::PerBatch(one, 1);
  Check(attention.query_lengths.values.present() && Near(Attend(attention), {kMean, 0, 0}), "query_lengths");
  attention = {};
  attention.key_lengths = heed::Lengths::PerQuery(growing, 1, 3);
  Check(Near(Attend(attention), {1, 1.5, kMean}), "key_lengths");
  attention.key_lengths = heed::Lengths::PerBatch(none, 1);
  Check(Near(Attend(attention), {0, 0, 0}), "EmptyRow::kZero");
  attention.empty_row = heed::EmptyRow::kUniform;
  Check(Near(Attend(attention), {kMean, kMean, kMean}), "EmptyRow::kUniform");

  const bool diagonal[] = {true, false, false, false, true, false, false, false, true};
  attention = {};
  attention.mask = heed::Mask{Of<bool, 4>(diagonal, {1, 1, 3, 3})};
  Check(attention.mask.present() && Near(Attend(attention), {1, 2, 4}), "mask");
  const int64_t starts[] = {0, 1, 3};
  attention = {};
  attention.packed = heed::Packed{Of<int64_t, 1>(starts, {3}), Of<int64_t, 1>(starts, {3})};
  Check(attention.packed.query_offsets.present() && attention.packed.key_offsets.present(), "Packed");
  Check(attention.packed.present() && Near(Attend(attention), {1, 3, 3}), "packed");
}

void UsePositions() {
  heed::Attention attention;
  attention.causal = heed::Causal::kBottomRight;
  attention.query_positions.offset = 1;
  attention.key_positions.offset = 0;
  Check(attention.query_positions.present() && Near(Attend(attention), {1.5, kMean, kMean}), "offsets");
  const double real[] = {0.0, 1.0, 2.0};
  const int64_t whole[] = {2, 1, 0};
  attention.query_positions = heed::Positions{std::nullopt, Of<double, 2>(real, {1, 3})};
  attention.key_positions = heed::Positions{std::nullopt, Of<int64_t, 2>(whole, {1, 3})};
  Check(attention.key_positions.listed() && Near(Attend(attention), {4, 3, kMean}), "listed positions");
}

void UseBiases() {
  const float two = std::log(2.0f);
  const float first[] = {two, 0, 0}, by_offset[] = {0, two, 0, 0, two, 0}, slopes[] = {two, two}, added[] = {0, 1, 0};
  const float wide[] = {1, 1, 1, 1, 1, 1};
  heed::Attention attention;
  attention.bias = heed::Bias{Of<float, 4>(first, {1, 1, 1, 3})};
  Check(Near(Attend(attention), {2, 2, 2}), "bias");
  attention = {};
  attention.relative_bias = heed::RelativeBias{Of<float, 2>(by_offset, {2, 3})};
  Check(Near(Attend(attention), {2, 2.25, 2.75}), "relative_bias");
  attention = {};
  attention.slope_bias = heed::SlopeBias{Of<float, 1>(slopes, {2})};
  Check(Near(Attend(attention), {3 / 1.75, 2.25, 5.25 / 1.75}), "slope_bias");
  attention.slope_bias->symmetric = false;
  Check(Near(Attend(attention), {3, 3, 3}), "slope_bias, not symmetric");
  attention = {};
  attention.content_bias = heed::ContentBias{
      .keys = Of<float, 2>(wide, {3, 2}), .values = Of<float, 2>(added, {3, 1}), .queries = Of<float, 2>(wide, {3, 2})};
  Check(Near(Attend(attention), {kMean + 1.0 / 3, kMean + 1.0 / 3, kMean + 1.0 / 3}), "content_bias");
  static_assert(std::is_same_v<heed::Table<2>, std::variant<heed::View<const float, 2>, heed::View<const double, 2>>>);
}

void UseDropout() {
  heed::Attention attention;
  attention.dropout = {.probability = 0.5, .seed = 7, .batch_offset = 3};
  Check(Attend(attention) == Attend(attention), "dropout");
  const std::vector<double> x(64, 1.0);
  std::vector<double> y(64);
  heed::SerialExecutor serial;
  heed::DropElements(heed::Dropout{.probability = 0.5, .seed = 7}, x.data(), y.data(), 64, serial);
  const auto kept = std::count(y.begin(), y.end(), 2.0);
  Check(kept > 0 && kept < 64 && kept + std::count(y.begin(), y.end(), 0.0) == 64, "DropElements");
  std::vector<float> in_place(64, 1.0f);
  heed::DropElements<float>(heed::Dropout{0.5, 7}, in_place.data(), in_place.data(), 64, serial);
  Check(std::equal(y.begin(), y.end(), in_place.begin()), "DropElements in place");
}

void UseBackward() {
  Call call;
  const float two = std::log(2.0f);
  const float first[] = {two, 0, 0}, zeros[6] = {}, slopes[] = {two, two};
  heed::Attention attention;
  attention.bias = heed::Bias{Of<float, 4>(first, {1, 1, 1, 3})};
  attention.relative_bias = heed::RelativeBias{Of<float, 2>(zeros, {2, 3})};
  attention.slope_bias = heed::SlopeBias{Of<float, 1>(slopes, {2})};
  attention.content_bias =
      heed::ContentBias{Of<float, 2>(zeros, {3, 2}), Of<float, 2>(zeros, {3, 1}), Of<float, 2>(zeros, {3, 2})};

  heed::Workspace workspace;
  heed::SerialExecutor serial;
  std::vector<float> entropy(6), largest(6), distance(6);
  heed::Statistics<float> statistics;
  statistics.entropy = heed::View<float, 3>::Contiguous(entropy.data(), {1, 2, 3});
  statistics.max_weight = heed::View<float, 3>::Contiguous(largest.data(), {1, 2, 3});
  statistics.mean_distance = heed::View<float, 3>::Contiguous(distance.data(), {1, 2, 3});
  const auto q = call.Wide(call.q), k = call.Wide(call.k), v = call.V();
  heed::Forward(attention, q, k, v, call.Out(), call.Lse());
  heed::Forward(attention, q, k, v, call.Out(), call.Lse(), workspace, serial);
  heed::Forward<float>(attention, q, k, v, call.Out(), call.Lse(), workspace, serial, statistics);
  // Row 0 weighs its keys 2 : 1/2 : 1/4.
  Check(Near(call.lse[0], std::log(2.75)) && Near(largest[0], 2 / 2.75) && Near(distance[0], 1 / 2.75), "statistics");

  std::vector<float> weights(6), d_q(12), d_k(12), d_v(6), ones(6, 1.0f);
  const int64_t heads[] = {1, 0}, rows[] = {0};
  heed::Weights<float>(attention, q, k, call.Lse(), Of<int64_t, 1>(heads, {2}), Of<int64_t, 1>(rows, {1}),
                       heed::View<float, 4>::Contiguous(weights.data(), {1, 2, 1, 3}), workspace, serial);
  Check(Near(weights, {2 / 2.75, 0.5 / 2.75, 0.25 / 2.75}), "Weights");

  std::vector<float> d_bias(3), d_relative(6), d_slopes(2), d_keys(6), d_values(3), d_queries(6);
  heed::BiasGradients<float> d_biases;
  d_biases.bias = heed::View<float, 4>::Contiguous(d_bias.data(), {1, 1, 1, 3});
  d_biases.relative_bias = heed::View<float, 2>::Contiguous(d_relative.data(), {2, 3});
  d_biases.slopes = heed::View<float, 1>::Contiguous(d_slopes.data(), {2});
  d_biases.content_keys = heed::View<float, 2>::Contiguous(d_keys.data(), {3, 2});
  d_biases.content_values = heed::View<float, 2>::Contiguous(d_values.data(), {3, 1});
  d_biases.content_queries = heed::View<float, 2>::Contiguous(d_queries.data(), {3, 2});
  const auto d_out = Of<float, 4>(ones.data(), {1, 2, 3, 1});
  const auto wide = [](std::vector<float>& x) { return heed::View<float, 4>::Contiguous(x.data(), {1, 2, 3, 2}); };
  const auto d_v_view = heed::View<float, 4>::Contiguous(d_v.data(), {1, 2, 3, 1});
  heed::Backward(attention, q, k, v, call.Out(), call.Lse(), d_out, wide(d_q), wide(d_k), d_v_view, d_biases, workspace,
                 serial);
  double sum = 0;
  for (const float d : d_v) sum += d;
  Check(Near(sum, 6) && Near(d_values[0] + d_values[1] + d_values[2], 6), "Backward");
  heed::Backward<float>(attention, q, k, v, call.Out(), call.Lse(), d_out, wide(d_q), wide(d_k), d_v_view, {}, workspace,
                        serial, call.Lse());

  const heed::Shape shape{1, 2, 2, 3, 3, 2, 1};
  Check(heed::ForwardWorkspace(attention, shape, 4, 1) > 0 && heed::BackwardWorkspace(attention, shape, 4, 1) > 0,
        "workspaces");
  Check(Refuses([&] { heed::Forward(attention, q, k, v, heed::View<float, 4>{}); }), "InvalidArgument");
  const std::vector<std::string> targets = heed::SupportedTargets();
  heed::UseTarget(targets.back());
  heed::UseTarget("");
}

template <class T>
void UseType(T one, T two) {
  const T q[] = {one}, v[] = {two};
  T out[1] = {};
  heed::Accum<T> lse[1] = {};
  const auto view = heed::View<const T, 4>::Contiguous(q, {1, 1, 1, 1});
  heed::Forward(heed::Attention{}, view, view, heed::View<const T, 4>::Contiguous(v, {1, 1, 1, 1}),
                heed::View<T, 4>::Contiguous(out, {1, 1, 1, 1}), heed::View<heed::Accum<T>, 3>::Contiguous(lse, {1, 1, 1}));
  if constexpr (std::is_arithmetic_v<T>) {
    Check(out[0] == two && Near(lse[0], 1), "types");
  } else {
    Check(out[0].bits == two.bits && Near(lse[0], 1), "16-bit types");
  }
}

template <class T>
void UseCache() {
  heed::KeyValueCache<T> cache(1, 1, 1, 1), roomy(1, 1, 1, 1, 4);
  roomy.Reserve(8);
  const T k[] = {0, 0}, v[] = {1, 3}, q[] = {1};
  T out[1] = {};
  cache.Append(heed::View<const T, 4>::Contiguous(k, {1, 1, 2, 1}), heed::View<const T, 4>::Contiguous(v, {1, 1, 2, 1}));
  heed::Workspace workspace;
  heed::SerialExecutor serial;
  heed::Attention attention;
  attention.causal = heed::Causal::kBottomRight;
  cache.Attend(attention, heed::View<const T, 4>::Contiguous(q, {1, 1, 1, 1}), heed::View<T, 4>::Contiguous(out, {1, 1, 1, 1}),
               {}, workspace, serial);
  const int64_t rows[] = {0, 0};
  cache.Reorder(heed::View<const int64_t, 1>::Contiguous(rows, {2}));
  cache.Truncate(1);
  Check(out[0] == 2 && cache.batch() == 2 && cache.length() == 1 && cache.capacity() >= 1 && roomy.capacity() >= 8,
        "KeyValueCache");
  Check(cache.Keys()(0, 0, 0, 0) == 0 && cache.Values()(1, 0, 0, 0) == 1, "KeyValueCache's views");
}

template <class T>
void UseTables() {
  T row[4] = {};
  const heed::SinusoidalOptions halves{
      .layout = heed::SinusoidalLayout::kHalves, .base = 100.0, .angles = heed::Angles::kFloat32};
  heed::SinusoidalTable(halves, 1, heed::View<T, 2>::Contiguous(row, {1, 4}));
  Check(Near(row[0], std::sin(1)) && Near(row[1], std::sin(0.1)) && Near(row[2], std::cos(1)), "SinusoidalTable");
  heed::SinusoidalTable({}, 1, heed::View<T, 2>::Contiguous(row, {1, 4}));
  Check(Near(row[1], std::cos(1)) && Near(row[2], std::sin(0.01)), "SinusoidalTable's defaults");
  T table[3] = {};
  heed::AlibiTable({0.5}, 1, heed::View<T, 2>::Contiguous(table, {1, 3}));
  Check(table[0] == T(-0.5) && table[1] == 0 && table[2] == T(-0.5), "AlibiTable");
}

void UsePositionalNumbers() {
  const heed::SinusoidalOptions options;
  Check(options.layout == heed::SinusoidalLayout::kInterleaved && options.base == 10000.0, "SinusoidalOptions");
  Check(options.angles == heed::Angles::kFloat64, "Angles");
  const std::vector<double> frequencies = heed::SinusoidalFrequencies(4), other = heed::SinusoidalFrequencies(4, 100.0);
  Check(Near(frequencies[1], 0.01) && Near(other[1], 0.1), "SinusoidalFrequencies");
  Check(Near(heed::AlibiSlopes(8)[0], 0.5), "AlibiSlopes");
  const heed::T5Options t5{.buckets = 8, .max_distance = 16, .bidirectional = false};
  const std::vector<int64_t> thresholds = heed::T5Thresholds(t5);
  int64_t buckets[3] = {};
  heed::T5Buckets(t5, 1, heed::View<int64_t, 1>::Contiguous(buckets, {3}));
  Check(thresholds.size() == 8 && thresholds[1] == 1 && buckets[0] == 1 && buckets[1] == 0 && buckets[2] == 0, "T5");
  const heed::T5Options usual;
  Check(usual.buckets == 32 && usual.max_distance == 128 && usual.bidirectional, "T5Options");
}

void UseScalings() {
  const heed::RotaryOptions options;
  Check(options.rotary_dim == 0 && options.base == 10000.0 && options.angles == heed::Angles::kFloat64, "RotaryOptions");
  Check(heed::YarnScaling().beta_fast == 32.0 && heed::YarnScaling().beta_slow == 1.0 && heed::YarnScaling().truncate, "Yarn");
  Check(heed::Llama3Scaling().factor == 8.0 && heed::Llama3Scaling().original_length == 8192, "Llama3Scaling");
  Check(heed::Llama3Scaling().low_frequency_factor == 1.0 && heed::Llama3Scaling().high_frequency_factor == 4.0, "Llama 3");
  const std::vector<heed::RotaryScaling> scalings{
      std::monostate(),
      heed::LinearScaling{.factor = 2.0},
      heed::NtkScaling{.factor = 2.0},
      heed::DynamicScaling{.factor = 2.0, .original_length = 4},
      heed::YarnScaling{.factor = 2.0, .original_length = 64, .attention_factor = 1.5, .mscale = 1.0, .mscale_all_dim = 1.0},
      heed::LongRopeScaling{
          .short_factors = {1, 1}, .long_factors = {2, 2}, .original_length = 4, .factor = 2.0, .attention_factor = 1.5},
      heed::Llama3Scaling{},
  };
  const std::vector<bool> by_length{false, false, false, true, false, true, false};
  for (std::size_t i = 0; i < scalings.size(); ++i) {
    heed::RotaryOptions scaled{.rotary_dim = 4, .scaling = scalings[i]};
    Check(heed::DependsOnLength(scalings[i]) == by_length[i], "DependsOnLength");
    Check(heed::ComputeRotaryFrequencies(scaled, 8).values.size() == 2, "ComputeRotaryFrequencies");
  }
  Check(heed::ComputeRotaryFrequencies({.rotary_dim = 2, .scaling = heed::LinearScaling{2.0}}).values[0] == 0.5,
        "LinearScaling");
}

template <class T>
void UseRotary() {
  const heed::RotaryFrequencies frequencies{
      .values = {std::numbers::pi / 2}, .attention_factor = 1.0, .angles = heed::Angles::kFloat64};
  const int64_t whole[] = {1};
  const double real[] = {1.0};
  T cos[1] = {}, sin[1] = {};
  const auto cos_view = heed::View<T, 2>::Contiguous(cos, {1, 1}), sin_view = heed::View<T, 2>::Contiguous(sin, {1, 1});
  heed::RotaryTable(frequencies, heed::View<const int64_t, 1>::Contiguous(whole, {1}), cos_view, sin_view);
  heed::RotaryTable(frequencies, heed::View<const double, 1>::Contiguous(real, {1}), cos_view, sin_view);
  heed::RotaryTable(frequencies, int64_t{1}, cos_view, sin_view);
  Check(Near(cos[0], 0) && Near(sin[0], 1), "RotaryTable");
  const T x[] = {1, 0};
  T out[2] = {};
  heed::SerialExecutor serial;
  for (const heed::RotaryLayout layout : {heed::RotaryLayout::kHalf, heed::RotaryLayout::kInterleaved}) {
    heed::ApplyRotary({.layout = layout, .inverse = true}, heed::View<const T, 4>::Contiguous(x, {1, 1, 1, 2}),
                      heed::View<const T, 3>::Contiguous(cos, {1, 1, 1}), heed::View<const T, 3>::Contiguous(sin, {1, 1, 1}),
                      heed::View<T, 4>::Contiguous(out, {1, 1, 1, 2}), serial);
    Check(Near(out[0], 0) && Near(out[1], -1), "ApplyRotary");
  }
  Check(heed::Rotation().layout == heed::RotaryLayout::kHalf && !heed::Rotation().inverse, "Rotation");
}

}  // namespace

int main() {
  UseViewsElementsErrors();
  UseExecutorsAndWorkspaces();
  CheckDefaults();
  UseMasks();
  UsePositions();
  UseBiases();
  UseDropout();
  UseBackward();
  UseType<float>(1, 2);
  UseType<double>(1, 2);
  UseType(heed::ToBFloat16(1), heed::ToBFloat16(2));
  UseType(heed::ToFloat16(1), heed::ToFloat16(2));
  UseCache<float>();
  UseCache<double>();
  UseTables<float>();
  UseTables<double>();
  UsePositionalNumbers();
  UseScalings();
  UseRotary<float>();
  UseRotary<double>();
  return faults;
}
