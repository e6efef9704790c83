#include "distributed/prepared_call.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/FuncTorchTLS.h>
#include <torch/csrc/autograd/functions/utils.h>

#include "operator_node.h"
#include "refuse.h"
#include "tensor_view.h"

namespace heed::nn::distributed {
namespace {

using torch::autograd::variable_list;

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

// What messages follow from.
Facts FactsOf(const Request& request) {
  Facts facts{{"query", DescribedPart(request.query, 2)},
              {"key", DescribedPart(request.key, 2)},
              {"value", DescribedPart(request.value, 2)},
              {"method", std::string(NameOf(request.choice.method))},
              {"layout", std::string(NameOf(request.choice.layout))},
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
    Refuse("sinks: expected one a head, [", query.size(1), "], for a sequence over several ranks, got ", ShapeText(sinks));
  Operands operands{request.query, request.key, request.value, options.tensors()};
  Wanted needs{};
  bool any = false;
  for (std::size_t t = 0; t < Operands::kCount; ++t) {
    needs[t] = WantsNode(*operands.All()[t]);
    any = any || needs[t];
  }
  options.tensors() = Detached(options.tensors());
  const bool statistics = options.return_statistics();
  const Whole whole(options.return_statistics(false), request.query.size(0), queries.total(), keys.total());
  const DealtHeads heads{query.size(1), key.size(1), exchange.ranks()};
  const auto call =
      std::make_shared<const Call>(Call{exchange, queries, keys, heads, whole, needs, any, statistics, request.returns_lse});
  return {call, operands, PlanOf(*call, operands, request.rotation, request.choice.method)};
}

// saved: what the method's forward pass has saved, then the operands.
variable_list GradientsOfRanks(const variable_list& d_results, const variable_list& saved, const std::vector<bool>& /*wanted*/,
                               const std::vector<c10::IValue>& numbers) {
  return Once("attention", Joined(d_results, saved), [&] {
    const SharedCall call = HeldIn<Call>(numbers[0]);
    const Operands operands = OperandsIn(at::ArrayRef<at::Tensor>(saved).slice(saved.size() - Operands::kCount));
    const Gradients d = (numbers[1].toBool() ? RingBackward : AllToAllBackward)(*call, d_results, saved, operands);
    return variable_list(d.begin(), d.end());
  });
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
  const auto& [call, operands, plan] = prepared;
  const bool ring = plan.method == Method::kRing;
  variable_list all = ListOf(operands), saved;
  if (const auto& transforms = at::functorch::functorchTLSAccessor()) transforms->checkSupportsCppAutogradFunction();
  AttentionOutput result;
  {
    const at::NoGradGuard no_grad;
    result = (ring ? RingForward : AllToAllForward)(*call, operands, saved);
  }
  RefuseTangents(call->exchange.function().c_str(), all);
  if (!call->needs_gradient) return result;
  const auto node = MakeNode<OperatorNode>(ring ? "HeedRingBackward" : "HeedAllToAllBackward", &GradientsOfRanks, all,
                                           std::vector<c10::IValue>{Held(call), ring}, /*joint=*/true);
  for (const at::Tensor* of : {&result.output, &result.lse}) torch::autograd::set_history(*of, node);
  node->Save(saved, /*outputs=*/true);
  if (!ring) std::fill_n(all.begin(), Operands::kOwnNames.size(), at::Tensor());  // it has saved their whole sequence
  node->Save(all);
  return result;
}

}  // namespace heed::nn::distributed
