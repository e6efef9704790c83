// XLA's handlers of attention. Results are named as the gradients and results of heed/attention.h; those that are not named are
// not computed.
#include "heed/attention.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "call.h"
#include "heed/error.h"
#include "options.h"
#include "threads.h"

namespace heed::jax {
namespace {

// The keys of the largest weights, which are numbers of 32 bits in arrays, as JAX has no longer ones unless told: memory for as
// many of the engine's, with the numbers.
View<int64_t, 3> LargestKeys(Call& call, const View<const int32_t, 3>& keys) {
  if (!keys.present()) return {};
  std::vector<int64_t>& wide = call.Room(keys.size());
  std::copy_n(keys.data, keys.size(), wide.begin());
  return {wide.data(), keys.extent, keys.stride};
}

constexpr auto kForward = []<class T>(T, Call& call, Workspace& workspace, Executor& executor) {
  using A = Accum<T>;
  const Attention attention = AttentionOf<A>(call);
  const Statistics<A> statistics{call.Rows<A>("entropy"), call.Rows<A>("max_weight"), call.Rows<A>("mean_distance")};
  const View<int32_t, 3> keys = call.Rows<int32_t>("largest_key");
  if (keys.present() && call.Tokens<const T>("key").extent[2] > std::numeric_limits<int32_t>::max())
    throw InvalidArgument(
        "key: expected less than 2^31 keys beside statistics, whose gradient needs a key's number in 32 bits");
  const View<int64_t, 3> largest = LargestKeys(call, keys);
  Forward<T>(attention,
             {.q = call.Tokens<const T>("query"), .k = call.Tokens<const T>("key"), .v = call.Tokens<const T>("value")},
             {.out = call.Tokens<T>("output"),
              .lse = call.Rows<A>("lse"),
              .statistics = statistics,
              .remainder = call.Tokens<BFloat16>("remainder"),
              .correction = call.Rows<A>("correction"),
              .largest_key = largest},
             workspace, executor);
  std::transform(largest.data, largest.data + (keys.present() ? keys.size() : 0), keys.data,
                 [](int64_t key) { return static_cast<int32_t>(key); });
};

// The arrays of tables that get(name, View{}) finds under their names.
template <class A, class Get>
BiasGradients<A> Tables(const Get& get) {
  BiasGradients<A> tables;
  get("bias", tables.bias);
  get("relative_bias", tables.relative_bias);
  get("slopes", tables.slopes);
  get("content_keys", tables.content_keys);
  get("content_values", tables.content_values);
  get("content_queries", tables.content_queries);
  get("transformer_xl_positions", tables.transformer_xl_positions);
  get("transformer_xl_bias", tables.transformer_xl_bias);
  get("contextual_position", tables.contextual_position);
  get("sinks", tables.sinks);
  return tables;
}

template <class A>
BiasGradients<A> TableGradients(const Call& call) {
  return Tables<A>([&]<int Rank>(const char* name, View<A, Rank>& table) { table = call.Dense<A, Rank>(name); });
}

template <class T>
BackwardInputs<T> BackwardInputsOf(Call& call) {
  using A = Accum<T>;
  return {.q = call.Tokens<const T>("query"),
          .k = call.Tokens<const T>("key"),
          .v = call.Tokens<const T>("value"),
          .out = call.Tokens<const T>("output"),
          .lse = call.Rows<const A>("lse"),
          .d_out = call.Tokens<const T>("d_output"),
          .d_lse = call.Rows<const A>("d_lse"),
          .remainder = call.Tokens<const BFloat16>("remainder"),
          .correction = call.Rows<const A>("correction"),
          .statistics = {.entropy = call.Rows<const A>("entropy"),
                         .max_weight = call.Rows<const A>("max_weight"),
                         .mean_distance = call.Rows<const A>("mean_distance"),
                         .largest_key = LargestKeys(call, call.Rows<const int32_t>("largest_key")),
                         .d_entropy = call.Rows<const A>("d_entropy"),
                         .d_max_weight = call.Rows<const A>("d_max_weight"),
                         .d_mean_distance = call.Rows<const A>("d_mean_distance")}};
}

constexpr auto kBackward = []<class T>(T, Call& call, Workspace& workspace, Executor& executor) {
  using A = Accum<T>;
  Backward<T>(AttentionOf<A>(call), BackwardInputsOf<T>(call),
              {.q = call.Tokens<T>("query"),
               .k = call.Tokens<T>("key"),
               .v = call.Tokens<T>("value"),
               .biases = TableGradients<A>(call)},
              workspace, executor);
};

// Inputs t_query and its like: tangents of what they are named after.
template <class T>
Tangents<T> TangentsOf(const Call& call) {
  using A = Accum<T>;
  return {.q = call.Tokens<const T>("t_query"),
          .k = call.Tokens<const T>("t_key"),
          .v = call.Tokens<const T>("t_value"),
          .biases = Tables<A>([&]<int Rank>(const char* name, View<A, Rank>& table) {
            const View<const A, Rank> tangent = call.Dense<const A, Rank>(std::string("t_") + name);
            // Tangents are only read.
            table = {const_cast<A*>(tangent.data), tangent.extent,
                     tangent.stride};  // NOLINT(cppcoreguidelines-pro-type-const-cast)
          })};
}

// Results t_output and t_lse.
constexpr auto kTangent = []<class T>(T, Call& call, Workspace& workspace, Executor& executor) {
  using A = Accum<T>;
  for (const char* name : {"t_entropy", "t_max_weight", "t_mean_distance"})
    if (call.FindResult(name))
      throw InvalidArgument("attention: forward-mode differentiation is not implemented for statistics");
  if (call.settings.Flag("of_tangent"))
    throw InvalidArgument(
        "the tangent of attention: forward-mode differentiation is not implemented; second derivatives go by a gradient: "
        "take jax.jvp of jax.grad");
  Tangent<T>(AttentionOf<A>(call), call.Tokens<const T>("query"), call.Tokens<const T>("key"), call.Tokens<const T>("value"),
             TangentsOf<T>(call), call.Tokens<T>("output"), call.Tokens<T>("t_output"), call.Rows<A>("lse"),
             call.Rows<A>("t_lse"), workspace, executor);
};

// Inputs of a backward pass, and the tangents of them; results are the tangents of its results, under their names.
constexpr auto kBackwardTangent = []<class T>(T, Call& call, Workspace& workspace, Executor& executor) {
  using A = Accum<T>;
  const RowTangents<T> of_rows{.out = call.Tokens<const T>("t_output"),
                               .lse = call.Rows<const A>("t_lse"),
                               .d_out = call.Tokens<const T>("t_d_output"),
                               .d_lse = call.Rows<const A>("t_d_lse")};
  BackwardTangent<T>(AttentionOf<A>(call), BackwardInputsOf<T>(call), TangentsOf<T>(call), of_rows, call.Tokens<T>("query"),
                     call.Tokens<T>("key"), call.Tokens<T>("value"), TableGradients<A>(call), workspace, executor);
};

// The numbers of an array [n]; without it 0 .. count - 1.
View<const int64_t, 1> Indices(Call& call, std::string_view name, int64_t count) {
  if (call.Find(name)) return call.Integers<1>(name);
  std::vector<int64_t>& all = call.Room(count);
  std::iota(all.begin(), all.end(), 0);
  return View<const int64_t, 1>::Contiguous(all.data(), {count});
}

constexpr auto kWeights = []<class T>(T, Call& call, Workspace& workspace, Executor& executor) {
  using A = Accum<T>;
  const View<const T, 4> query = call.Tokens<const T>("query");
  Weights<T>(AttentionOf<A>(call), query, call.Tokens<const T>("key"), call.Rows<const A>("lse"),
             Indices(call, "heads", query.extent[1]), Indices(call, "rows", query.extent[2]), call.Dense<A, 4>("weights"),
             workspace, executor);
};

// Calls kCompute(T{}, call, workspace, executor) for every slice; T: the type of elements.
template <auto kCompute>
void Run(Call& call) {
  call.FoldIntoBatch();
  const std::shared_ptr<Executor> executor = SharedThreads();
  const std::shared_ptr<Workspace> workspace = LentWorkspace();
  WithElementType(call.Find("query")->type,
                  [&](auto element) { call.ForEachSlice([&] { kCompute(element, call, *workspace, *executor); }); });
}

}  // namespace
}  // namespace heed::jax

HEED_JAX_HANDLER(heed_jax_attention, heed::jax::Run<heed::jax::kForward>);
HEED_JAX_HANDLER(heed_jax_attention_backward, heed::jax::Run<heed::jax::kBackward>);
HEED_JAX_HANDLER(heed_jax_attention_tangent, heed::jax::Run<heed::jax::kTangent>);
HEED_JAX_HANDLER(heed_jax_attention_backward_tangent, heed::jax::Run<heed::jax::kBackwardTangent>);
HEED_JAX_HANDLER(heed_jax_attention_weights, heed::jax::Run<heed::jax::kWeights>);
