#include "cache_memory.h"

#include <string>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "refuse.h"
#include "tensor_view.h"

namespace heed::nn {
namespace {

// count: the tokens of key.
void CheckTokens(const std::string& name, const at::Tensor& tokens, const at::Tensor& own, const c10::SymInt& count) {
  CheckDense(name.c_str(), tokens, own.device().type());
  if (tokens.dim() != 4 || tokens.sym_size(0) != own.sym_size(0) || tokens.sym_size(1) != own.sym_size(1) ||
      tokens.sym_size(2) != count || tokens.sym_size(3) != own.sym_size(3)) {
    Refuse(c10::str(name, ": expected shape [", own.sym_size(0), ", ", own.sym_size(1), ", ",
                    count < 0 ? std::string("n") : c10::str(count), ", ", own.sym_size(3), "], got "),
           ShapeText(tokens));
  }
  if (tokens.scalar_type() != own.scalar_type()) {
    Refuse(name, ": expected ", own.scalar_type(), " as the cache has, got ", tokens.scalar_type());
  }
  // A cache cannot pass a gradient on, and training would lose it silently.
  if (tokens.requires_grad() && at::GradMode::is_enabled()) {
    Refuse(name,
           ": requires a gradient, and a cache passes none on; decode under torch.no_grad() or "
           "torch::NoGradGuard, or train without a cache");
  }
}

at::Tensor Grown(const at::Tensor& own, const c10::SymInt& length, const c10::SymInt& capacity) {
  at::Tensor grown = at::empty_symint({own.sym_size(0), own.sym_size(1), capacity, own.sym_size(3)}, own.options());
  grown.narrow_symint(2, 0, length).copy_(own.narrow_symint(2, 0, length));
  return grown;
}

}  // namespace

CacheMemory Appended(CacheMemory memory, const at::Tensor& key, const at::Tensor& value, const c10::SymInt& length,
                     bool grows) {
  const c10::SymInt count = key.defined() && key.dim() == 4 ? key.sym_size(2) : c10::SymInt(-1);
  CheckTokens("KeyValueCache: key", key, memory.keys, count);
  CheckTokens("KeyValueCache: value", value, memory.values, count);
  const c10::SymInt end = length + count, capacity = memory.keys.sym_size(2);
  const at::NoGradGuard no_grad;
  if (end > capacity) {
    if (!grows) {
      Refuse("KeyValueCache: key: ", end, " tokens do not fit into a capacity of ", capacity);
    }
    const c10::SymInt larger = end.max(capacity * 2);
    memory = {Grown(memory.keys, length, larger), Grown(memory.values, length, larger)};
  }
  memory.keys.narrow_symint(2, length, count).copy_(key);
  memory.values.narrow_symint(2, length, count).copy_(value);
  return memory;
}

}  // namespace heed::nn
