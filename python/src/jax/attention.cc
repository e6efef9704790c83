// XLA's handlers of attention. Results are named as the gradients and results of heed/attention.h; those that are not named are
// not computed.
#include "heed/attention.h"

#include "call.h"
#include "options.h"
#include "threads.h"

namespace heed::jax {
namespace {

template <class T>
void ForwardSlice(const CallSlice& slice, Workspace& workspace, Executor& executor) {
  using A = Accum<T>;
  const Options<A> options(slice);
  const Statistics<A> statistics{slice.RowsOut<A>("entropy"), slice.RowsOut<A>("max_weight"),
                                 slice.RowsOut<A>("mean_distance")};
  Forward<T>(options.attention(), slice.TokensIn<T>("query"), slice.TokensIn<T>("key"), slice.TokensIn<T>("value"),
             slice.TokensOut<T>("output"), slice.RowsOut<A>("lse"), workspace, executor, statistics,
             slice.TokensOut<BFloat16>("remainder"), slice.RowsOut<A>("correction"));
}

template <class A>
BiasGradients<A> TableGradients(const CallSlice& slice) {
  BiasGradients<A> gradients;
  gradients.bias = slice.Result<A, 4>("bias");
  gradients.relative_bias = slice.Result<A, 2>("relative_bias");
  gradients.slopes = slice.Result<A, 1>("slopes");
  gradients.content_keys = slice.Result<A, 2>("content_keys");
  gradients.content_values = slice.Result<A, 2>("content_values");
  gradients.content_queries = slice.Result<A, 2>("content_queries");
  gradients.transformer_xl_positions = slice.Result<A, 3>("transformer_xl_positions");
  gradients.transformer_xl_bias = slice.Result<A, 2>("transformer_xl_bias");
  gradients.contextual_position = slice.Result<A, 2>("contextual_position");
  return gradients;
}

template <class T>
void BackwardSlice(const CallSlice& slice, Workspace& workspace, Executor& executor) {
  using A = Accum<T>;
  const Options<A> options(slice);
  Backward<T>(options.attention(), slice.TokensIn<T>("query"), slice.TokensIn<T>("key"), slice.TokensIn<T>("value"),
              slice.TokensIn<T>("output"), slice.RowsIn<A>("lse"), slice.TokensIn<T>("d_output"), slice.TokensOut<T>("query"),
              slice.TokensOut<T>("key"), slice.TokensOut<T>("value"), TableGradients<A>(slice), workspace, executor,
              slice.RowsIn<A>("d_lse"), slice.TokensIn<BFloat16>("remainder"), slice.RowsIn<A>("correction"));
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

// Calls compute(slice, workspace, executor, T{}) for every slice.
template <class Compute>
void Run(Call& call, const Compute& compute) {
  FoldIntoBatch(call);
  const std::shared_ptr<Executor> executor = SharedThreads();
  const LentWorkspace workspace;
  WithElementType(call.inputs.Get("query").type, [&](auto element) {
    ForEachSlice(call, [&](const CallSlice& slice) { compute(slice, *workspace, *executor, element); });
  });
}

void RunForward(Call& call) {
  Run(call, [](const CallSlice& slice, Workspace& workspace, Executor& executor, auto element) {
    ForwardSlice<decltype(element)>(slice, workspace, executor);
  });
}

void RunBackward(Call& call) {
  Run(call, [](const CallSlice& slice, Workspace& workspace, Executor& executor, auto element) {
    BackwardSlice<decltype(element)>(slice, workspace, executor);
  });
}

void RunWeights(Call& call) {
  Run(call, [](const CallSlice& slice, Workspace& workspace, Executor& executor, auto element) {
    WeightsSlice<decltype(element)>(slice, workspace, executor);
  });
}

}  // namespace
}  // namespace heed::jax

HEED_JAX_HANDLER(heed_jax_attention, heed::jax::RunForward);
HEED_JAX_HANDLER(heed_jax_attention_backward, heed::jax::RunBackward);
HEED_JAX_HANDLER(heed_jax_attention_weights, heed::jax::RunWeights);
