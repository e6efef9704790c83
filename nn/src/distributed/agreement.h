// That all ranks do the same, before any message of an algorithm. Each call agrees twice: on how many tokens there are, and,
// once everything is prepared that may be refused, on what it will use. Both are messages of one size, whatever ranks disagree
// about.
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

// What they may not: names, and what each is in words that are equal where it is the same. What is not named is None.
using Facts = std::vector<std::pair<std::string, std::string>>;

struct Statement {
  Terms terms;
  Facts facts;
};

// The terms of all ranks, where the facts that `state` returns are the same. Throws InvalidArgument on every rank that names
// each fact in which ranks differ, and Error for a rank that refused or did not answer. Where `state` throws, the others are
// told.
std::vector<Terms> AgreeOn(const Exchange& exchange, const std::function<Statement()>& state);

// Tells the others why this rank does not take part, in place of AgreeOn.
void TellRefusal(const Exchange& exchange, const std::string& reason);

// How often this thread has answered other ranks, by either.
int64_t Answers();

// Heed's version and the function that was called.
Facts Introduction(const Exchange& exchange, const std::string& version);

// A number of the bytes, in hexadecimal digits.
std::string Digest(std::span<const std::byte> bytes);

// Type, shape and whether a gradient is required; numbers where none is, if they are few, else a digest of them, which is kept
// for as long as the tensor's version stays.
std::string Described(const at::Tensor& tensor);

// Type, shape and whether a gradient is required.
std::string DescribedShape(const at::Tensor& tensor);

// Likewise of a tensor whose dimension `ranked` is cut into parts.
std::string DescribedPart(const at::Tensor& tensor, int64_t ranked);

// Adds what a call takes of options, whose scheme is among the tensors already; of tables that may come of what is trained,
// which ranks compute each for themselves, the shapes.
void Describe(const AttentionOptions& options, Facts& facts);

// Adds a scheme's type and the tensors of its module.
void Describe(const AttentionPosition* scheme, Facts& facts);

}  // namespace heed::nn::distributed

#endif  // HEED_NN_SRC_DISTRIBUTED_AGREEMENT_H_
