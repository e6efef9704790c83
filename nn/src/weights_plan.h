// The plan of heed/weight_plan.h for tensors.
#ifndef HEED_NN_SRC_WEIGHTS_PLAN_H_
#define HEED_NN_SRC_WEIGHTS_PLAN_H_

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "heed/weight_plan.h"
#include "weights_module.h"
#include "weights_source.h"

namespace heed::nn {

struct TensorCopy {
  NamedTensor target;
  std::string source;  // empty: zeros
  Layout layout = Layout::kSame;
};

struct TensorPlan {
  std::vector<TensorCopy> copies;
  std::vector<std::string> faults;  // none where everything fits
};

TensorPlan PlanTensors(const ModuleWeights& module, const TensorSources& sources, Framework framework,
                       const std::string& prefix);

// A tensor in heed's layout, a view; undefined if its rank or extents do not allow that.
at::Tensor ToHeed(const at::Tensor& theirs, Layout layout);

struct TensorExport {
  WeightExport plan;
  std::vector<NamedTensor> tensors;  // those that the plan numbers
};

TensorExport PlanExport(const ModuleWeights& module, Framework framework, Layers layers, const std::string& prefix);

// A tensor of heed's as the framework lays it out, apart from what it is stacked with; a view.
at::Tensor FromHeed(const at::Tensor& ours, const WeightExport::Part& part);

// "parameter 'W_q.weight' [8, 8]"
std::string Described(const char* what, const std::string& name, const at::Tensor& tensor);

// Whether both are the same numbers in the same place, in the same order.
bool SameMemory(const at::Tensor& a, const at::Tensor& b);

}  // namespace heed::nn

#endif  // HEED_NN_SRC_WEIGHTS_PLAN_H_
