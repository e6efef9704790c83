// XLA's handlers of attention. Results are named as the gradients and results of heed/attention.h; those that are not named are
// not computed.
#include "heed/attention.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "call.h"
#include "heed/error.h"
#include "options.h"
#include "threads.h"

namespace heed::jax {
namespace {

// The keys of the largest weights, which are numbers of 32 bits in arrays: JAX has no longer ones unless told.
class LargestKeys {
 public:
  // As many as `keys` has, and with its numbers; none where it is absent.
  explicit LargestKeys(const View<const int32_t, 3>& keys) {
    if (!keys.present()) return;
    numbers_.assign(keys.data, keys.data + keys.size());
    numbers_.push_back(0);  // an address where there are none
    view_ = View<int64_t, 3>::Contiguous(numbers_.data(), keys.extent);
    view_.stride = keys.stride;
  }
  const View<int64_t, 3>& view() const { return view_; }
  void CopyTo(const View<int32_t, 3>& keys) const {
    std::transform(numbers_.begin(), numbers_.end() - 1, keys.data, [](int64_t key) { return static_cast<int32_t>(key); });
  }

 private:
  std::vector<int64_t> numbers_;
  View<int64_t, 3> view_;
};

template <class T>
void ForwardSlice(const CallSlice& slice, Workspace& workspace, Executor& executor) {
  using A = Accum<T>;
  const Options<A> options(slice);
  const Statistics<A> statistics{slice.RowsOut<A>("entropy"), slice.RowsOut<A>("max_weight"),
                                 slice.RowsOut<A>("mean_distance")};
  const View<int32_t, 3> keys = slice.RowsOut<int32_t>("largest_key");
  if (keys.present() && slice.TokensIn<T>("key").extent[2] > std::numeric_limits<int32_t>::max())
    throw InvalidArgument(
        "key: expected less than 2^31 keys beside statistics, whose gradient needs a key's number in 32 bits");
  const LargestKeys largest(keys);
  Forward<T>(options.attention(),
             {.q = slice.TokensIn<T>("query"), .k = slice.TokensIn<T>("key"), .v = slice.TokensIn<T>("value")},
             {.out = slice.TokensOut<T>("output"),
              .lse = slice.RowsOut<A>("lse"),
              .statistics = statistics,
              .remainder = slice.TokensOut<BFloat16>("remainder"),
              .correction = slice.RowsOut<A>("correction"),
              .largest_key = largest.view()},
             workspace, executor);
  if (keys.present()) largest.CopyTo(keys);
}

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
BiasGradients<A> TableGradients(const CallSlice& slice) {
  return Tables<A>([&]<int Rank>(const char* name, View<A, Rank>& table) { table = slice.Result<A, Rank>(name); });
}

template <class T>
BackwardInputs<T> BackwardInputsOf(const CallSlice& slice) {
  using A = Accum<T>;
  return {.q = slice.TokensIn<T>("query"),
          .k = slice.TokensIn<T>("key"),
          .v = slice.TokensIn<T>("value"),
          .out = slice.TokensIn<T>("output"),
          .lse = slice.RowsIn<A>("lse"),
          .d_out = slice.TokensIn<T>("d_output"),
          .d_lse = slice.RowsIn<A>("d_lse"),
          .remainder = slice.TokensIn<BFloat16>("remainder"),
          .correction = slice.RowsIn<A>("correction")};
}

template <class T>
void BackwardSlice(const CallSlice& slice, Workspace& workspace, Executor& executor) {
  using A = Accum<T>;
  const Options<A> options(slice);
  const LargestKeys largest(slice.RowsIn<int32_t>("largest_key"));
  BackwardInputs<T> inputs = BackwardInputsOf<T>(slice);
  inputs.statistics = {.entropy = slice.RowsIn<A>("entropy"),
                       .max_weight = slice.RowsIn<A>("max_weight"),
                       .mean_distance = slice.RowsIn<A>("mean_distance"),
                       .largest_key = largest.view(),
                       .d_entropy = slice.RowsIn<A>("d_entropy"),
                       .d_max_weight = slice.RowsIn<A>("d_max_weight"),
                       .d_mean_distance = slice.RowsIn<A>("d_mean_distance")};
  Backward<T>(options.attention(), inputs,
              {.q = slice.TokensOut<T>("query"),
               .k = slice.TokensOut<T>("key"),
               .v = slice.TokensOut<T>("value"),
               .biases = TableGradients<A>(slice)},
              workspace, executor);
}

// Inputs t_query and its like: tangents of what they are named after.
template <class T>
Tangents<T> TangentsOf(const CallSlice& slice) {
  using A = Accum<T>;
  return {.q = slice.TokensIn<T>("t_query"),
          .k = slice.TokensIn<T>("t_key"),
          .v = slice.TokensIn<T>("t_value"),
          .biases = Tables<A>([&]<int Rank>(const char* name, View<A, Rank>& table) {
            const View<const A, Rank> tangent = slice.Input<A, Rank>(std::string("t_") + name);
            // Tangents are only read.
            table = {const_cast<A*>(tangent.data), tangent.extent,
                     tangent.stride};  // NOLINT(cppcoreguidelines-pro-type-const-cast)
          })};
}

// Results t_output and t_lse.
template <class T>
void TangentSlice(const CallSlice& slice, Workspace& workspace, Executor& executor) {
  using A = Accum<T>;
  for (const char* name : {"t_entropy", "t_max_weight", "t_mean_distance"})
    if (slice.Returns(name)) throw InvalidArgument("attention: forward-mode differentiation is not implemented for statistics");
  if (slice.settings().Flag("of_tangent"))
    throw InvalidArgument(
        "the tangent of attention: forward-mode differentiation is not implemented; second derivatives go by a gradient: "
        "take jax.jvp of jax.grad");
  const Options<A> options(slice);
  Tangent<T>(options.attention(), slice.TokensIn<T>("query"), slice.TokensIn<T>("key"), slice.TokensIn<T>("value"),
             TangentsOf<T>(slice), slice.TokensOut<T>("output"), slice.TokensOut<T>("t_output"), slice.RowsOut<A>("lse"),
             slice.RowsOut<A>("t_lse"), workspace, executor);
}

// Inputs of a backward pass, and the tangents of them; results are the tangents of its results, under their names.
template <class T>
void BackwardTangentSlice(const CallSlice& slice, Workspace& workspace, Executor& executor) {
  using A = Accum<T>;
  const Options<A> options(slice);
  const RowTangents<T> of_rows{.out = slice.TokensIn<T>("t_output"),
                               .lse = slice.RowsIn<A>("t_lse"),
                               .d_out = slice.TokensIn<T>("t_d_output"),
                               .d_lse = slice.RowsIn<A>("t_d_lse")};
  BackwardTangent<T>(options.attention(), BackwardInputsOf<T>(slice), TangentsOf<T>(slice), of_rows,
                     slice.TokensOut<T>("query"), slice.TokensOut<T>("key"), slice.TokensOut<T>("value"),
                     TableGradients<A>(slice), workspace, executor);
}

template <class T>
void WeightsSlice(const CallSlice& slice, Workspace& workspace, Executor& executor) {
  using A = Accum<T>;
  const Options<A> options(slice);
  const View<const T, 4> query = slice.TokensIn<T>("query");
  const Indices heads(slice, "heads", query.extent[1]), rows(slice, "rows", query.extent[2]);
  Weights<T>(options.attention(), query, slice.TokensIn<T>("key"), slice.RowsIn<A>("lse"), heads.view(), rows.view(),
             slice.Result<A, 4>("weights"), workspace, executor);
}

// Calls compute(T{}, slice, workspace, executor) for every slice; T: the type of elements.
template <class Compute>
void Run(Call& call, const Compute& compute) {
  FoldIntoBatch(call);
  const std::shared_ptr<Executor> executor = SharedThreads();
  const LentWorkspace workspace;
  WithElementType(call.inputs.Get("query").type, [&](auto element) {
    ForEachSlice(call, [&](const CallSlice& slice) { compute(element, slice, *workspace, *executor); });
  });
}

void RunForward(Call& call) {
  Run(call, []<class T>(T, auto&... of) { ForwardSlice<T>(of...); });
}
void RunBackward(Call& call) {
  Run(call, []<class T>(T, auto&... of) { BackwardSlice<T>(of...); });
}
void RunTangent(Call& call) {
  Run(call, []<class T>(T, auto&... of) { TangentSlice<T>(of...); });
}
void RunBackwardTangent(Call& call) {
  Run(call, []<class T>(T, auto&... of) { BackwardTangentSlice<T>(of...); });
}
void RunWeights(Call& call) {
  Run(call, []<class T>(T, auto&... of) { WeightsSlice<T>(of...); });
}

}  // namespace
}  // namespace heed::jax

HEED_JAX_HANDLER(heed_jax_attention, heed::jax::RunForward);
HEED_JAX_HANDLER(heed_jax_attention_backward, heed::jax::RunBackward);
HEED_JAX_HANDLER(heed_jax_attention_tangent, heed::jax::RunTangent);
HEED_JAX_HANDLER(heed_jax_attention_backward_tangent, heed::jax::RunBackwardTangent);
HEED_JAX_HANDLER(heed_jax_attention_weights, heed::jax::RunWeights);
