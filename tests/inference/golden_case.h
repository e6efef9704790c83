// Cases computed by other frameworks, without LibTorch: a manifest (options) and a file of tensors each.
#ifndef HEED_TESTS_INFERENCE_GOLDEN_CASE_H_
#define HEED_TESTS_INFERENCE_GOLDEN_CASE_H_

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "heed/view.h"
#include "heed/weights.h"
#include "tests/golden_index.h"

namespace heed {

// Numbers of any type as double, row by row.
struct GoldenTensor {
  std::vector<int64_t> shape;
  std::vector<double> numbers;
  std::vector<float> floats() const { return {numbers.begin(), numbers.end()}; }
};

struct GoldenCase {
  explicit GoldenCase(const std::string& name);

  bool Has(const std::string& name) const { return tensors.contains(name); }
  const GoldenTensor& At(const std::string& name) const { return tensors.at(name); }
  Framework framework() const;
  // The parameters, under the framework's own names, into a layer.
  void Load(const Parameters& parameters) const;
  // Expects |actual - expected| <= tolerance * the largest expected number, everywhere.
  void ExpectClose(const std::vector<float>& actual, const std::string& expected, double tolerance) const;

  nlohmann::json manifest, options;
  std::map<std::string, GoldenTensor> tensors;
};

}  // namespace heed

#endif  // HEED_TESTS_INFERENCE_GOLDEN_CASE_H_
