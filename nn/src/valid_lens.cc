#include "valid_lens.h"

#include <limits>

#include <ATen/ATen.h>

#include "refuse.h"
#include "tensor_view.h"

namespace heed::nn {
namespace {

void CheckLens(const at::Tensor& valid_lens, const c10::SymInt& batch, const c10::SymInt& queries) {
  CheckDense("valid_lens", valid_lens, valid_lens.device().type());
  const bool per_batch = valid_lens.dim() == 1 && valid_lens.sym_size(0) == batch;
  const bool per_query =
      valid_lens.dim() == 2 && queries >= 0 && valid_lens.sym_size(0) == batch && valid_lens.sym_size(1) == queries;
  if (!per_batch && !per_query) {
    Refuse(c10::str("valid_lens: expected shape [", batch, "]",
                    queries >= 0 ? c10::str(" or [", batch, ", ", queries, "]") : "", ", got "),
           ShapeText(valid_lens));
  }
  if (valid_lens.is_complex() || valid_lens.scalar_type() == at::kBool) {
    Refuse("valid_lens: expected integers or real numbers, got ", valid_lens.scalar_type());
  }
}

// The same numbers in a type that holds `steps`.
at::Tensor InWideType(const at::Tensor& lengths) {
  if (lengths.is_floating_point()) return lengths.to(at::kDouble).nan_to_num(0.0).ceil();
  const at::Tensor whole = lengths.to(at::kLong);
  // What does not fit is more than any number of steps.
  return lengths.scalar_type() == at::kUInt64 ? whole.masked_fill(whole.lt(0), std::numeric_limits<int64_t>::max()) : whole;
}

}  // namespace

at::Tensor ClampValidLens(const at::Tensor& valid_lens, const c10::SymInt& batch, const c10::SymInt& queries,
                          const c10::SymInt& steps) {
  if (!valid_lens.defined()) return valid_lens;
  CheckLens(valid_lens, batch, queries);
  return InWideType(valid_lens.detach()).clamp(0, steps).to(at::kLong);
}

}  // namespace heed::nn
