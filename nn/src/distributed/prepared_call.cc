#include "distributed/prepared_call.h"

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include <ATen/ATen.h>

#include "distributed/plan.h"
#include "heed/error.h"
#include "tensor_view.h"

namespace heed::nn::distributed {
namespace {

// A tensor of the shape of all ranks' parts, without their memory.
at::Tensor WholeOf(const at::Tensor& part, const Parts& parts) {
  return at::empty({}, part.options()).expand({part.size(0), part.size(1), parts.total(), part.size(3)});
}

// As heed::nn::attention has them; a row of a bias that serves all heads stays one, so that its gradient is sent once.
AttentionTensors ResolvedOnce(const AttentionTensors& given, const at::Tensor& query) {
  AttentionTensors resolved = Resolved(given, query);
  if (given.relative_bias.defined()) resolved.relative_bias = resolved.relative_bias.narrow(0, 0, given.relative_bias.size(0));
  return resolved;
}

AttentionTensors Detached(AttentionTensors tensors) {
  for (at::Tensor* tensor : tensors.All())
    if (tensor->defined()) *tensor = tensor->detach();
  return tensors;
}

const char* NameOf(Method method) {
  if (method == Method::kAuto) return "auto";
  return method == Method::kRing ? "ring" : "all_to_all";
}

// What messages follow from.
Facts FactsOf(const Request& request) {
  Facts facts{{"query", DescribedPart(request.query, 2)},
              {"key", DescribedPart(request.key, 2)},
              {"value", DescribedPart(request.value, 2)},
              {"method", NameOf(request.choice.method)},
              {"layout", request.choice.layout == Layout::kZigzag ? "zigzag" : "contiguous"},
              {"return_lse", request.returns_lse ? "true" : "false"},
              {"rotation", std::to_string(request.rotation)}};
  facts.insert(facts.end(), request.told.begin(), request.told.end());
  Describe(request.options, facts);
  return facts;
}

PreparedCall Prepared(const Exchange& exchange, Request request) {
  CheckAttentionInputs(request.query, request.key, request.value);
  const Parts queries("query", request.choice.layout, std::move(request.query_lengths)),
      keys("key", request.choice.layout, std::move(request.key_lengths));
  AttentionOptions options = std::move(request.options);
  const at::Tensor query = WholeOf(request.query, queries), key = WholeOf(request.key, keys);
  options.tensors() = ResolvedOnce(options.tensors(), query);
  CheckCall(query, key, WholeOf(request.value, keys), options);
  if (const at::Tensor& sinks = options.tensors().sinks; sinks.defined() && (sinks.size(0) != 1 || sinks.size(2) != 1))
    throw InvalidArgument("sinks: expected one a head, [" + std::to_string(query.size(1)) +
                          "], for a sequence over several ranks, got " + ShapeText(sinks));
  Operands operands{request.query, request.key, request.value, options.tensors()};
  Wanted given{}, needs{};
  bool any = false;
  for (std::size_t t = 0; t < Operands::kCount; ++t) {
    given[t] = operands.All()[t]->defined();
    needs[t] = given[t] && at::GradMode::is_enabled() && operands.All()[t]->requires_grad();
    any = any || needs[t];
  }
  options.tensors() = Detached(options.tensors());
  const bool statistics = options.return_statistics();
  const Whole whole(options.return_statistics(false), request.query.size(0), queries.total(), keys.total());
  const auto call =
      std::make_shared<const Call>(Call{exchange, queries, keys, whole, given, needs, any, statistics, request.returns_lse});
  return {call, operands, PlanOf(*call, operands, request.rotation, request.choice.method)};
}

}  // namespace

PreparedCall Agreed(const Exchange& exchange, const std::function<Request()>& request) {
  PreparedCall prepared;
  AgreeOn(exchange, [&]() -> Statement {
    Request own = request();
    Statement statement{{}, FactsOf(own)};
    prepared = Prepared(exchange, std::move(own));
    return statement;
  });
  return prepared;
}

AttentionOutput Computed(const PreparedCall& prepared) {
  const torch::autograd::variable_list present = PresentOf(prepared.operands);
  const torch::autograd::variable_list results =
      prepared.plan.method == Method::kRing ? RingAttention(present, prepared.call) : AllToAllAttention(present, prepared.call);
  AttentionOutput output{results[0], results[1], {}, {}};
  if (prepared.call->statistics) output.statistics = results[2];
  return output;
}

}  // namespace heed::nn::distributed
