#include "reference/hashed_calls.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <random>
#include <type_traits>
#include <utility>

#include "heed/attention.h"
#include "heed/gated_delta.h"
#include "heed/packed_matrix.h"
#include "heed/portable_math.h"
#include "heed/positions.h"
#include "heed/rotary.h"
#include "reference/bits_hash.h"
#include "reference/fuzz_cases.h"
#include "reference/normal.h"
#include "reference/random_cases.h"
#include "reference/trial.h"

namespace heed::reference {
namespace {

constexpr int kAttentionCalls = 500;
constexpr const char* kTypes[] = {"float", "double", "BFloat16", "Float16"};

// --- attention ---

// Up to four queries and many keys.
Case Decoding(Random& random) {
  Case c = RandomCases(random() % 100000).back();
  c.name = "decoding, " + c.name;
  c.shape.q_len = Pick(random, {1, 1, 2, 3, 4});
  c.shape.kv_len = Pick(random, {5, 70, 700, 1300, 2100, 5000});
  return c;
}

Case TwoOptions(Random& random) {
  const std::vector<Option>& options = Options();
  for (;;) {
    const Option &a = options[random() % options.size()], &b = options[random() % options.size()];
    if (AreApart(a, b)) return PairCase(a, b, random() % 1000);
  }
}

Case Drawn(Random& random) {
  switch (random() % 5) {
    case 0:
      return RandomCases(random() % 100000).back();
    case 1:
      return FuzzCase(random() % 100000);
    case 2:
      return TwoOptions(random);
    case 3:
      return Decoding(random);
    default:
      return Cases()[random() % Cases().size()];
  }
}

HashedCall AttentionCall(int number) {
  const int type = number % 4;
  const uint64_t seed = 7000003 * static_cast<uint64_t>(number + 1);
  Random random(seed);
  Case c = Drawn(random);
  if (type == 2 && c.precision == Precision::kFloat32 && Chance(random, 3)) c = Fused(c);
  const auto hash = [c, seed, type](Executor& executor) -> uint64_t {
    return type == 0   ? HashTrial<float>(c, seed, executor)
           : type == 1 ? HashTrial<double>(c, seed, executor)
           : type == 2 ? HashTrial<BFloat16>(c, seed, executor)
                       : HashTrial<Float16>(c, seed, executor);
  };
  return {std::to_string(number) + " " + kTypes[type] + ": " + c.name, hash};
}

// --- random arrays ---

template <class T>
class Arrays {
 public:
  explicit Arrays(Random& random) : random_(random) {}

  template <std::size_t kRank>
  View<T, static_cast<int>(kRank)> Make(const std::array<int64_t, kRank>& extent, double size = 1) {
    int64_t count = 1;
    for (const int64_t e : extent) count *= e;
    std::vector<T>& numbers = memory_.emplace_back(static_cast<std::size_t>(count) + 1);
    for (T& number : numbers) number = static_cast<T>(size * normal_(random_));
    return View<T, static_cast<int>(kRank)>::Contiguous(numbers.data(), extent);
  }
  // Of exponents from 0 down, some of them so low that a step forgets all.
  View<T, 3> Decays(const std::array<int64_t, 3>& extent) {
    const View<T, 3> decays = Make(extent);
    for (T& decay : memory_.back()) decay = decay < T{2} ? -decay * decay * T{0.1} : T{-40};
    return decays;
  }
  uint64_t Hash() const {
    BitsHash hash;
    for (const auto& numbers : memory_) hash.AddAll(numbers);
    return hash.value();
  }

 private:
  Random& random_;
  Normal normal_;
  std::vector<std::vector<T>> memory_;
};

// --- forward mode, and the tangent of the backward pass behind it ---

template <class T>
uint64_t HashTangent(uint64_t seed, Executor& executor) {
  Random random(seed);
  Arrays<T> arrays(random);
  const int64_t batch = Pick(random, {1, 2}), kv_heads = Pick(random, {1, 2}), heads = kv_heads * Pick(random, {1, 3}),
                queries = Pick(random, {1, 7, 64, 130}), keys = Pick(random, {1, 33, 200, 1100}),
                dim = Pick(random, {1, 16, 33, 64}), values = Pick(random, {1, 16, 35, 64});
  Attention attention;
  attention.causal = Chance(random, 3) ? Causal::kBottomRight : Causal::kNone;
  if (Chance(random, 3)) attention.softcap = 2;
  if (Chance(random, 3)) attention.dropout = {.probability = 0.2, .seed = seed};
  const auto make = [&](int64_t of_heads, int64_t rows, int64_t width) {
    return arrays.template Make<4>({batch, of_heads, rows, width});
  };
  const View<T, 4> q = make(heads, queries, dim), k = make(kv_heads, keys, dim), v = make(kv_heads, keys, values);
  Tangents<T> tangents;
  tangents.q = make(heads, queries, dim), tangents.k = make(kv_heads, keys, dim), tangents.v = make(kv_heads, keys, values);
  const View<T, 4> out = make(heads, queries, values), t_out = make(heads, queries, values);
  const View<T, 3> lse = arrays.template Make<3>({batch, heads, queries}),
                   t_lse = arrays.template Make<3>({batch, heads, queries});
  Workspace workspace;
  Tangent<T>(attention, q, k, v, tangents, out, t_out, lse, t_lse, workspace, executor);
  const BackwardInputs<T> inputs{.q = q, .k = k, .v = v, .out = out, .lse = lse, .d_out = make(heads, queries, values)};
  const RowTangents<T> of_rows{.out = t_out, .lse = t_lse, .d_out = make(heads, queries, values)};
  // One after the other: compilers differ in the order in which they take arguments.
  const View<T, 4> t_d_q = make(heads, queries, dim), t_d_k = make(kv_heads, keys, dim), t_d_v = make(kv_heads, keys, values);
  BackwardTangent<T>(attention, inputs, tangents, of_rows, t_d_q, t_d_k, t_d_v, {}, workspace, executor);
  return arrays.Hash();
}

// --- mixers ---

// Linear attention, or the gated delta rule: both passes and three steps of decoding from the final state.
template <class T>
uint64_t HashMixer(uint64_t seed, bool delta, Executor& executor) {
  Random random(seed);
  const int64_t batch = Pick(random, {1, 2}), heads = Pick(random, {1, 3}), steps = Pick(random, {1, 7, 64, 65, 200, 333}),
                dim = Pick(random, {1, 5, 16, 33, 64}), values = Pick(random, {1, 7, 16, 35, 64});
  LinearOptions options;
  options.normalise = !delta && Chance(random, 2);
  Arrays<T> arrays(random);
  const auto make = [&](int64_t width, double size = 1) { return arrays.template Make<4>({batch, heads, steps, width}, size); };
  LinearInputs<T> in;
  const double small = 1 / static_cast<double>(dim);
  in.q = make(dim), in.k = make(dim, delta ? small : 1), in.v = make(values);
  if (Chance(random, 2)) in.decay = arrays.Decays({1, heads, 1});
  if (!in.decay.present() && Chance(random, 2)) in.decay = arrays.Decays({batch, heads, steps});
  if (delta) in.beta = arrays.template Make<3>({batch, heads, steps}, 0.5);
  const std::array<int64_t, 4> state{batch, heads, dim, values + (options.normalise ? 1 : 0)};
  in.initial_state = arrays.template Make<4>(state, 0.1);
  const LinearOutputs<T> out{make(values), arrays.template Make<4>(state),
                             options.normalise ? arrays.template Make<3>({batch, heads, steps}) : View<T, 3>()};
  Workspace workspace;
  (delta ? GatedDeltaForward<T> : LinearAttentionForward<T>)(options, in, out, workspace, executor);
  LinearCotangents<T> from;
  from.d_out = make(values), from.d_final_state = arrays.template Make<4>(state);
  if (options.normalise) from.out = out.out, from.sums = out.sums;
  LinearGradients<T> to{make(dim), make(dim), make(values), {}, arrays.template Make<4>(state), {}};
  if (in.decay.present()) to.d_decay = arrays.template Make<3>(in.decay.extent);
  if (delta) to.d_beta = arrays.template Make<3>(in.beta.extent);
  (delta ? GatedDeltaBackward<T> : LinearAttentionBackward<T>)(options, in, from, to, workspace, executor);
  for (int turn = 0; turn < 3; ++turn) {
    const auto of_step = [&](int64_t width, double size = 1) { return arrays.template Make<3>({batch, heads, width}, size); };
    LinearStep<T> step{of_step(dim), of_step(dim, delta ? small : 1), of_step(values), {}, {}};
    if (delta) step.beta = arrays.template Make<2>({batch, heads}, 0.5);
    const View<T, 3> y = of_step(values);
    if (delta) {
      GatedDeltaStep<T>(step, out.final_state, y, executor);
    } else {
      LinearAttentionStep<T>(step, out.final_state, y, executor, options.normalise);
    }
  }
  return arrays.Hash();
}

// --- layers and tables ---

uint64_t HashPackedMatrix(uint64_t seed, Executor& executor) {
  Random random(seed);
  Arrays<float> arrays(random);
  const int64_t rows = Pick(random, {1, 5, 49, 130}), in = Pick(random, {1, 17, 64, 100}), out = Pick(random, {1, 30, 65, 200});
  const PackedMatrix matrix(arrays.Make<2>({out, in}));
  const View<float, 2> x = arrays.Make<2>({rows, in}), y = arrays.Make<2>({rows, out});
  matrix.Multiply(x, arrays.Make<1>({out}), y, executor);
  return arrays.Hash();
}

template <class T>
uint64_t HashRotary(uint64_t seed, Executor& executor) {
  Random random(seed);
  Arrays<T> arrays(random);
  const int64_t pairs = Pick(random, {1, 16, 32}), steps = Pick(random, {1, 9, 100});
  RotaryOptions options;
  options.rotary_dim = 2 * pairs;
  if (pairs > 1) {
    const RotaryScaling scalings[] = {
        {}, LinearScaling{3}, NtkScaling{3}, YarnScaling{.factor = 4, .original_length = 2048}, Llama3Scaling{}};
    options.scaling = scalings[random() % std::size(scalings)];
  }
  options.angles = Chance(random, 3) ? Angles::kFloat32 : Angles::kFloat64;
  const RotaryFrequencies frequencies = ComputeRotaryFrequencies(options);
  const auto cos = arrays.template Make<2>({steps, pairs}), sin = arrays.template Make<2>({steps, pairs});
  RotaryTable(frequencies, Pick(random, {0, 1000, 123456789, int64_t{1} << 50}), cos, sin);
  const auto tables = [&](const View<T, 2>& of) { return View<const T, 3>::Contiguous(of.data, {1, steps, pairs}); };
  const std::array<int64_t, 4> shape{2, 3, steps, 2 * pairs + 1};
  const View<T, 4> x = arrays.template Make<4>(shape), out = arrays.template Make<4>(shape);
  ApplyRotary(Rotation{}, x, tables(cos), tables(sin), out, executor);
  return arrays.Hash();
}

template <class T>
uint64_t HashTables(uint64_t seed, Executor& /*executor*/) {
  Random random(seed);
  Arrays<T> arrays(random);
  SinusoidalOptions options;
  options.angles = Chance(random, 2) ? Angles::kFloat32 : Angles::kFloat64;
  // Arguments are evaluated in any order.
  const View<T, 2> table = arrays.template Make<2>({100, 65});
  SinusoidalTable(options, Pick(random, {0, 5000}), table);
  const View<T, 1> positions = arrays.template Make<1>({50}, 1e5);
  std::vector<double> exact(positions.data, positions.data + 50);
  SinusoidalTable(options, View<const double, 1>::Contiguous(exact.data(), {50}), arrays.template Make<2>({50, 32}));
  const int64_t heads = Pick(random, {1, 12, 16});
  AlibiTable(AlibiSlopes(heads), 20, arrays.template Make<2>({heads, 41}));
  BitsHash hash;
  hash.Add(arrays.Hash());
  hash.AddAll(SinusoidalFrequencies(63));
  return hash.value();
}

// Functions alone, at numbers of all sizes.
uint64_t HashFunctions(uint64_t seed, Executor& /*executor*/) {
  Random random(seed);
  Normal normal;
  BitsHash hash;
  for (int turn = 0; turn < 2000; ++turn) {
    // One draw after the other: operands of a product may be computed in any order.
    const double spread = portable::Exp(4 * normal(random)), x = spread * normal(random), y = normal(random),
                 size = x < 0 ? -x : x;
    for (const double f : {portable::Exp(x), portable::Exp2(x), portable::Expm1(x), portable::Log(size), portable::Log1p(size),
                           portable::Pow(size, y), portable::Sin(x), portable::Cos(x), portable::Tanh(x), portable::Erf(x)})
      hash.Add(f);
    const auto narrow = static_cast<float>(x);
    for (const float f : {portable::Exp(narrow), portable::Tanh(narrow), portable::Erf(narrow)}) hash.Add(f);
  }
  return hash.value();
}

void AddOthers(std::vector<HashedCall>& calls) {
  const auto add = [&](const std::string& name, int count, const auto& hash) {
    for (int x = 0; x < count; ++x) {
      const uint64_t seed = 9000011 * static_cast<uint64_t>(x + 1);
      calls.push_back({name + " " + std::to_string(x), [hash, seed](Executor& executor) { return hash(seed, executor); }});
    }
  };
  add("tangent, float", 12, HashTangent<float>);
  add("tangent, double", 6, HashTangent<double>);
  for (const bool delta : {false, true}) {
    const std::string name = delta ? "gated delta" : "linear attention";
    add(name + ", float", 12, [delta](uint64_t seed, Executor& executor) { return HashMixer<float>(seed, delta, executor); });
    add(name + ", double", 6, [delta](uint64_t seed, Executor& executor) { return HashMixer<double>(seed, delta, executor); });
  }
  add("packed matrix", 8, HashPackedMatrix);
  add("rotary, float", 6, HashRotary<float>);
  add("rotary, double", 6, HashRotary<double>);
  add("tables, float", 4, HashTables<float>);
  add("tables, double", 4, HashTables<double>);
  add("functions", 2, HashFunctions);
}

}  // namespace

const std::vector<HashedCall>& HashedCalls() {
  static const std::vector<HashedCall> calls = [] {
    std::vector<HashedCall> all;
    for (int number = 0; number < kAttentionCalls; ++number) all.push_back(AttentionCall(number));
    AddOthers(all);
    return all;
  }();
  return calls;
}

bool HasPortableBits(const std::string& target) {
  return target.starts_with("AVX2") || target.starts_with("AVX3") || target.starts_with("NEON");
}

}  // namespace heed::reference
