#include <cstddef>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "attention_call.h"
#include "distributed/agreement.h"
#include "distributed/parts.h"
#include "distributed/prepared_call.h"
#include "distributed/rotation.h"
#include "heed/error.h"
#include "heed/nn/attention_position.h"
#include "heed/nn/distributed.h"
#include "scheme_options.h"
#include "tensor_view.h"
#include "token_positions.h"
#include "version.h"

namespace heed::nn::distributed {
namespace {

// What a rank was asked for. Throws InvalidArgument for what can be refused without knowing of the others.
Statement StatementOf(const Exchange& exchange, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                      const AttentionOptions& options) {
  CheckAttentionInputs(Dense("query", query), Dense("key", key), Dense("value", value));
  if (options.return_weights()) {
    throw InvalidArgument("return_weights: not returned by heed::nn::distributed: they are of the size of all scores");
  }
  {  // shapes of the three against each other
    const at::NoGradGuard no_grad;
    heed::nn::attention(query.narrow(2, 0, 0), key, value, AttentionOptions().scale(1));
  }
  const bool draws = options.dropout() != 0.0 && !options.seed();
  return {{{query.size(2), key.size(2), value.size(2)}, draws ? DrawSeed() : 0}, Introduction(exchange, Version())};
}

// A request as the ranks agreed on it, with what a scheme makes of queries, keys and options.
Request RequestOf(const Exchange& exchange, const std::vector<Terms>& agreed, const at::Tensor& query, const at::Tensor& key,
                  const at::Tensor& value, const AttentionOptions& options, Choice choice) {
  Request request;
  Describe(options.position().get(), request.told);
  request.query = Dense("query", query), request.key = Dense("key", key), request.value = Dense("value", value);
  request.choice = choice;
  for (const Terms& terms : agreed) {
    request.query_lengths.push_back(terms.lengths[0]);
    request.key_lengths.push_back(terms.lengths[1]);
  }
  AttentionOptions own = options;
  if (own.dropout() != 0.0 && !own.seed()) own.seed(agreed[0].seed);
  const AxesPositions on_axes = TakeAxes(own);
  const std::shared_ptr<const AttentionPosition>& scheme = options.position();
  own.position(nullptr);
  if (scheme) {
    const Parts queries("query", choice.layout, request.query_lengths), keys("key", choice.layout, request.key_lengths);
    own = WithScheme(*scheme, std::move(own), query);
    // Lists of places are resolved; tables are by the call.
    const auto places_alone = [&] {
      AttentionOptions placed = own;
      placed.tensors() = ResolvedPlaces(own.tensors());
      return placed;
    };
    if (scheme->rotates()) {
      const CallPositions places = PositionsOf(places_alone(), queries.total(), keys.total(), on_axes);
      Turned turned = TurnedByScheme(exchange, scheme, request.query, request.key, places, queries, keys);
      request.query = std::move(turned.query), request.key = std::move(turned.key);
      request.rotation = turned.trained;
      request.told.emplace_back("rotation of a token", turned.sample);
    }
    if (scheme->places()) {
      AttentionOptions placed = places_alone();
      PlaceTokens(*scheme, on_axes, queries.total(), keys.total(), placed);
      own = placed;
    }
  }
  request.options = std::move(own);
  return request;
}

PreparedCall Ready(const char* function, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                   const c10::intrusive_ptr<c10d::ProcessGroup>& group, AttentionOptions options, Choice choice) {
  const Exchange exchange(function, group);
  if (options.dropout() != 0.0) options.batch_offset(FirstRowOfDropout(options));
  const std::vector<Terms> agreed = AgreeOn(exchange, [&] { return StatementOf(exchange, query, key, value, options); });
  return Agreed(exchange, [&] { return RequestOf(exchange, agreed, query, key, value, options, choice); });
}

}  // namespace

AttentionOutput attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                          const c10::intrusive_ptr<c10d::ProcessGroup>& group, const AttentionOptions& options, Choice choice) {
  return Computed(Ready("heed::nn::distributed::attention", query, key, value, group, options, choice));
}

Plan plan(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
          const c10::intrusive_ptr<c10d::ProcessGroup>& group, const AttentionOptions& options, Choice choice) {
  return Ready("heed::nn::distributed::plan", query, key, value, group, options, choice).plan;
}

}  // namespace heed::nn::distributed
