#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/module.h>

#include "attention_call.h"
#include "distributed/agreement.h"
#include "distributed/parts.h"
#include "distributed/prepared_call.h"
#include "heed/error.h"
#include "heed/nn/attention_position.h"
#include "heed/nn/distributed.h"
#include "operator_node.h"
#include "tensor_view.h"
#include "token_positions.h"
#include "version.h"

namespace heed::nn::distributed {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// A rotation of tokens that stand here and there.
struct Rotation {
  Exchange exchange;
  std::shared_ptr<const AttentionPosition> scheme;
  at::Tensor queries, keys;  // positions of this rank's
  at::Tensor last;           // of a rotation that depends on the length of the text where it ends, [1]
};
using SharedRotation = std::shared_ptr<const Rotation>;

// Of the places of all tokens, [N], [B, N] or [B, N, axes], those of a rank.
at::Tensor OwnPlaces(const TokenPositions& places, const Parts& parts, int rank) {
  if (const auto* first = std::get_if<int64_t>(&places))
    return parts.Of(at::arange(parts.total(), at::kLong) + *first, 0, rank);
  const at::Tensor& list = std::get<at::Tensor>(places);
  return parts.Of(list, list.dim() > 1 ? 1 : 0, rank);
}

// The last place of all tokens, [1]; undefined where there are none.
at::Tensor LastOf(const TokenPositions& places, int64_t total) {
  if (const auto* first = std::get_if<int64_t>(&places))
    return total > 0 ? at::full({1}, *first + total - 1, at::kLong) : at::Tensor();
  const at::Tensor& list = std::get<at::Tensor>(places);
  return list.numel() > 0 ? list.max().reshape(1) : at::Tensor();
}

std::pair<at::Tensor, at::Tensor> Rotate(const Rotation& of, const at::Tensor& query, const at::Tensor& key) {
  if (!of.last.defined()) return of.scheme->rotate(query, key, of.queries, of.keys);
  // A rotation that depends on the length of the text is told of its end by one more token, which is dropped again.
  const auto longer = [](const at::Tensor& x) { return at::constant_pad_nd(x, {0, 0, 0, 1}); };
  const auto ends = [&](const at::Tensor& places) {
    std::vector<int64_t> shape = places.sizes().vec();
    shape.back() = 1;
    return at::cat({places, of.last.to(places.scalar_type()).expand(shape)}, -1);
  };
  const auto [queries, keys] = of.scheme->rotate(longer(query), longer(key), ends(of.queries), ends(of.keys));
  return {queries.narrow(2, 0, query.size(2)), keys.narrow(2, 0, key.size(2))};
}

// The same of no tokens.
Rotation Nowhere(Rotation of) {
  const auto none = [](const at::Tensor& places) { return places.narrow(places.dim() > 1 ? 1 : 0, 0, 0); };
  of.queries = none(of.queries), of.keys = none(of.keys);
  return of;
}

// The parameters that the rotation depends on, found by turning no tokens.
variable_list TrainedBy(const Rotation& rotation, const at::Tensor& query, const at::Tensor& key) {
  const auto* module = dynamic_cast<const torch::nn::Module*>(rotation.scheme.get());
  if (module == nullptr || !at::GradMode::is_enabled()) return {};
  variable_list wanted;
  for (const at::Tensor& parameter : module->parameters())
    if (parameter.requires_grad()) wanted.push_back(parameter);
  if (wanted.empty()) return {};
  const auto none = [](const at::Tensor& x) { return x.detach().narrow(2, 0, 0); };
  const auto [queries, keys] = Rotate(Nowhere(rotation), none(query), none(key));
  variable_list outputs;
  for (const at::Tensor& turned : {queries, keys})
    if (turned.requires_grad()) outputs.push_back(turned.sum());
  if (outputs.empty()) return {};
  const variable_list found =
      torch::autograd::grad(outputs, wanted, {}, /*retain_graph=*/std::nullopt, /*create_graph=*/false, /*allow_unused=*/true);
  variable_list trained;
  for (std::size_t p = 0; p < wanted.size(); ++p)
    if (found[p].defined()) trained.push_back(wanted[p]);
  return trained;
}

int64_t NumbersIn(const variable_list& tensors) {
  int64_t count = 0;
  for (const at::Tensor& tensor : tensors) count += tensor.numel();
  return count;
}

// A rotation with parameters, whose gradients are those of all ranks.
struct RotationFunction : Function<RotationFunction> {
  static variable_list forward(AutogradContext* ctx, at::TensorList inputs, const SharedRotation& rotation) {
    ctx->save_for_backward(inputs.vec());
    ctx->saved_data["rotation"] = Held(rotation);
    const auto [queries, keys] = Rotate(*rotation, inputs[0], inputs[1]);
    // What a scheme returns as it was given may not be both an input and an output of a Function.
    return {queries.is_same(inputs[0]) ? queries.clone() : queries, keys.is_same(inputs[1]) ? keys.clone() : keys};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& d_outputs) {
    const SharedRotation rotation = HeldIn<Rotation>(ctx->saved_data["rotation"]);
    const variable_list saved = ctx->get_saved_variables();
    const variable_list trained(saved.begin() + 2, saved.end());
    const at::AutoGradMode with_gradients(true);
    variable_list given{saved[0].detach().requires_grad_(), saved[1].detach().requires_grad_()};
    const auto [queries, keys] = Rotate(*rotation, given[0], given[1]);
    given.insert(given.end(), trained.begin(), trained.end());
    variable_list found = torch::autograd::grad({queries, keys}, given, d_outputs, /*retain_graph=*/std::nullopt,
                                                /*create_graph=*/false, /*allow_unused=*/true);
    for (std::size_t p = 0; p < trained.size(); ++p)
      if (!found[2 + p].defined()) found[2 + p] = at::zeros_like(trained[p]);
    const variable_list sums =
        SumsOverRanks(rotation->exchange, nn::PartOf(found, 2, trained.size()), "whose gradients of a scheme are added up");
    for (std::size_t p = 0; p < trained.size(); ++p) found[2 + p] = sums[p].to(trained[p].scalar_type());
    found.emplace_back();  // of the rotation
    return found;
  }
};

// Where all tokens stand, and what becomes of a query and a key at place 1, in words.
std::string SampleOf(Rotation rotation, const CallPositions& places, const at::Tensor& query, const at::Tensor& key) {
  const at::NoGradGuard no_grad;
  std::string text;
  for (const auto& [given, place] : {std::pair{&places.queries, &rotation.queries}, std::pair{&places.keys, &rotation.keys}}) {
    if (const auto* first = std::get_if<int64_t>(given)) {
      text += std::to_string(*first) + " ";
      *place = at::ones({1}, at::kLong);
    } else {
      const at::Tensor& list = std::get<at::Tensor>(*given);
      text += Described(list) + " ";
      std::vector<int64_t> shape = list.sizes().vec();
      shape[shape.size() > 1 ? 1 : 0] = 1;
      *place = at::ones(shape, list.options());
    }
  }
  const auto ones = [](const at::Tensor& x) { return at::ones({x.size(0), x.size(1), 1, x.size(3)}, x.options()); };
  const auto [turned_query, turned_key] = Rotate(rotation, ones(query), ones(key));
  return text + Described(turned_query) + " " + Described(turned_key);
}

struct Turned {
  at::Tensor query, key;
  int64_t trained = 0;  // numbers in the scheme's parameters that the rotation depends on
  std::string sample;   // what becomes of one query and key, where that depends on nothing that is trained
};

// What a scheme that rotates makes of this rank's queries and keys. places: of all tokens. Gradients of parameters that the
// rotation depends on are summed over ranks, unless each rank keeps its share.
Turned TurnedByScheme(const Exchange& exchange, std::shared_ptr<const AttentionPosition> scheme, const at::Tensor& query,
                      const at::Tensor& key, const CallPositions& places, const Parts& queries, const Parts& keys,
                      bool shares) {
  Rotation rotation{exchange,
                    std::move(scheme),
                    OwnPlaces(places.queries, queries, exchange.rank()),
                    OwnPlaces(places.keys, keys, exchange.rank()),
                    {}};
  if (!rotation.scheme->turns_once() && rotation.scheme->axes() == 1) {
    const at::Tensor of_queries = LastOf(places.queries, queries.total()), of_keys = LastOf(places.keys, keys.total());
    rotation.last = of_queries.defined() && of_keys.defined() ? at::maximum(of_queries, of_keys)
                    : of_queries.defined()                    ? of_queries
                                                              : of_keys;
  }
  const variable_list trained = shares ? variable_list() : TrainedBy(rotation, query, key);
  if (trained.empty()) {
    auto [turned_query, turned_key] = Rotate(rotation, query, key);
    return {std::move(turned_query), std::move(turned_key), 0, SampleOf(std::move(rotation), places, query, key)};
  }
  variable_list inputs{query, key};
  inputs.insert(inputs.end(), trained.begin(), trained.end());
  const variable_list turned =
      RotationFunction::apply(at::TensorList(inputs), std::make_shared<const Rotation>(std::move(rotation)));
  return {turned[0], turned[1], NumbersIn(trained), {}};
}

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

// The tensor, whose gradient is divided by the number of ranks.
at::Tensor Shared(const at::Tensor& x, int ranks) {
  if (!WantsNode(x)) return x;
  at::Tensor shared = x.view_as(x);
  shared.register_hook([ranks](const at::Tensor& gradient) { return gradient.defined() ? gradient / ranks : gradient; });
  return shared;
}

// A request as the ranks agreed on it, with what a scheme makes of queries, keys and options.
Request RequestOf(const Exchange& exchange, const std::vector<Terms>& agreed, const at::Tensor& query, const at::Tensor& key,
                  const at::Tensor& value, const AttentionOptions& options, Choice choice, bool shares) {
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
      Turned turned = TurnedByScheme(exchange, scheme, request.query, request.key, places, queries, keys, shares);
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
  for (at::Tensor* tensor : own.tensors().All())
    if (shares) *tensor = Shared(*tensor, exchange.ranks());
  request.options = std::move(own);
  return request;
}

PreparedCall Ready(const char* function, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                   const c10::intrusive_ptr<c10d::ProcessGroup>& group, AttentionOptions options, Choice choice,
                   bool shares = false) {
  const Exchange exchange(function, group);
  if (options.dropout() != 0.0) options.batch_offset(FirstRowOfDropout(options));
  const std::vector<Terms> agreed = AgreeOn(exchange, [&] { return StatementOf(exchange, query, key, value, options); });
  return Agreed(exchange, [&] { return RequestOf(exchange, agreed, query, key, value, options, choice, shares); });
}

}  // namespace

AttentionOutput attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                          const c10::intrusive_ptr<c10d::ProcessGroup>& group, const AttentionOptions& options, Choice choice) {
  return Computed(Ready("heed::nn::distributed::attention", query, key, value, group, options, choice));
}

AttentionOutput AttentionOfShares(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                  const c10::intrusive_ptr<c10d::ProcessGroup>& group, const AttentionOptions& options,
                                  Choice choice) {
  return Computed(Ready("heed::nn::distributed::attention", query, key, value, group, options, choice, /*shares=*/true));
}

Plan plan(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
          const c10::intrusive_ptr<c10d::ProcessGroup>& group, const AttentionOptions& options, Choice choice) {
  return Ready("heed::nn::distributed::plan", query, key, value, group, options, choice).plan;
}

}  // namespace heed::nn::distributed
