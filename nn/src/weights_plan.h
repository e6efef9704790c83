// Which source fills which tensor of a module, decided from names, shapes and types before anything is read or written.
#ifndef HEED_NN_SRC_WEIGHTS_PLAN_H_
#define HEED_NN_SRC_WEIGHTS_PLAN_H_

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "weights_module.h"
#include "weights_source.h"
#include "weights_tables.h"

namespace heed::nn {

struct WeightCopy {
  NamedTensor target;
  std::string source;
  Layout layout = Layout::kSame;
};

struct WeightPlan {
  std::vector<WeightCopy> copies;
  std::vector<std::string> faults;  // none where everything fits
};

// A checkpoint may keep the module inside a scope ("params/", "model.encoder."): the scope is what all its names share, and as
// much of it is left out as brings most names home.
WeightPlan PlanWeights(const ModuleWeights& module, const WeightSources& sources, const FrameworkTable& table);

// The tensor in heed's layout, a view; undefined if its rank or extents do not allow that.
at::Tensor ToHeed(const at::Tensor& theirs, Layout layout);

// "parameter 'W_q.weight' [8, 8]"
std::string Described(const char* what, const std::string& name, const at::Tensor& tensor);

// Whether both are the same numbers in the same place, in the same order.
bool SameMemory(const at::Tensor& a, const at::Tensor& b);

}  // namespace heed::nn

#endif  // HEED_NN_SRC_WEIGHTS_PLAN_H_
