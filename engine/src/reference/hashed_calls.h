// Calls whose results have the same bits on every target with fused multiply-adds: one hash each, which machines compare.
#ifndef HEED_REFERENCE_HASHED_CALLS_H_
#define HEED_REFERENCE_HASHED_CALLS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "heed/executor.h"

namespace heed::reference {

struct HashedCall {
  std::string name;  // its number, its type and the case
  std::function<uint64_t(Executor&)> hash;
};

// 500 calls of attention drawn at random by their numbers, over all options, types and decoding, with their gradients,
// statistics and weights; then tangents, mixers, packed matrices, rotations and tables.
const std::vector<HashedCall>& HashedCalls();

// Whether results on a target of SupportedTargets() have these bits: not where multiply-adds are two roundings.
bool HasPortableBits(const std::string& target);

}  // namespace heed::reference

#endif  // HEED_REFERENCE_HASHED_CALLS_H_
