// Cases computed by other frameworks: a manifest (options, tolerances) and a file of tensors each.
#ifndef HEED_TESTS_NN_GOLDEN_CASES_H_
#define HEED_TESTS_NN_GOLDEN_CASES_H_

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "heed/nn/weights.h"
#include "tests/golden_index.h"

namespace heed::nn {

// Names tests by their case.
inline std::string CaseName(const testing::TestParamInfo<std::string>& info) { return info.param; }

struct GoldenCase {
  explicit GoldenCase(const std::string& name);

  bool Has(const std::string& name) const { return tensors.count(name) != 0; }
  const at::Tensor& At(const std::string& name) const;    // throws std::out_of_range with the name
  TensorMap WithPrefix(const std::string& prefix) const;  // names without the prefix
  Framework framework() const;

  // Expects |actual - expected| <= atol + rtol * |expected| everywhere, with the manifest's tolerance of `group` ("output",
  // "weights", "grad"). Equal infinities are close.
  void ExpectClose(const at::Tensor& actual, const std::string& expected, const std::string& group) const;
  void ExpectClose(const at::Tensor& actual, const at::Tensor& expected, const std::string& what,
                   const std::string& group) const;

  nlohmann::json manifest, options;
  TensorMap tensors;
};

}  // namespace heed::nn

#endif  // HEED_TESTS_NN_GOLDEN_CASES_H_
