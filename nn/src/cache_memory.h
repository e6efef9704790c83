// Memory of a cache of keys and values, for the caches of both languages.
#ifndef HEED_NN_SRC_CACHE_MEMORY_H_
#define HEED_NN_SRC_CACHE_MEMORY_H_

#include <ATen/core/Tensor.h>
#include <c10/core/SymInt.h>

namespace heed::nn {

// [batch, kv_heads, capacity, width], of which the first tokens are in use.
struct CacheMemory {
  at::Tensor keys, values;
};

// The memory with the tokens of key and value [batch, kv_heads, n, width] behind its first `length`: the same where they fit,
// or else, where it grows, one of at least twice the capacity. Throws InvalidArgument, before anything changes, where they do
// not fit or require a gradient that is recorded. Works on meta tensors.
CacheMemory Appended(CacheMemory memory, const at::Tensor& key, const at::Tensor& value, const c10::SymInt& length, bool grows);

}  // namespace heed::nn

#endif  // HEED_NN_SRC_CACHE_MEMORY_H_
