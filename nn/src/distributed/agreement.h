// That all ranks were asked for the same, before anything is computed.
#ifndef HEED_NN_SRC_DISTRIBUTED_AGREEMENT_H_
#define HEED_NN_SRC_DISTRIBUTED_AGREEMENT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "distributed/exchange.h"
#include "heed/nn/attention.h"

namespace heed::nn::distributed {

// What ranks may differ in.
struct Terms {
  std::array<int64_t, 3> lengths{};  // tokens of query, key and value
  int64_t seed = 0;
};

// What they may not: names, and what each is in words that are equal where it is the same.
using Facts = std::vector<std::pair<std::string, std::string>>;

// The terms of all ranks, where their facts are the same. Throws InvalidArgument on every rank that names each fact in which
// ranks differ, and Error for a rank that refused or did not answer.
std::vector<Terms> Agree(const Exchange& exchange, const Terms& terms, const Facts& facts);

// Tells the others why this rank does not take part, in place of Agree.
void TellRefusal(const Exchange& exchange, const std::string& reason);

// Agree on what `state` returns, on the function that was called and on heed's version; where it throws, the others are told.
struct Statement {
  Terms terms;
  Facts facts;
};
std::vector<Terms> AgreeOn(const Exchange& exchange, const std::function<Statement()>& state);

// A number of the bytes, in hexadecimal digits.
std::string Digest(std::span<const std::byte> bytes);

// Type, shape, whether a gradient is required, and the numbers where they are few; of some more of them a digest.
std::string Described(const at::Tensor& tensor);

// Likewise of a tensor whose dimension `ranked` is cut into parts.
std::string DescribedPart(const at::Tensor& tensor, int64_t ranked);

// Adds what options of heed::nn::attention say.
void Describe(const AttentionOptions& options, Facts& facts);

}  // namespace heed::nn::distributed

#endif  // HEED_NN_SRC_DISTRIBUTED_AGREEMENT_H_
