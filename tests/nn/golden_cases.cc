#include "golden_cases.h"

#include <stdexcept>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "heed/nn/safetensors.h"

namespace heed::nn {

GoldenCase::GoldenCase(const std::string& name) {
  manifest = GoldenManifest(name);
  options = manifest.at("options");
  tensors = ReadSafetensors(GoldenFolder() + manifest.at("file").get<std::string>()).tensors;
}

const at::Tensor& GoldenCase::At(const std::string& name) const {
  const auto found = tensors.find(name);
  if (found == tensors.end()) throw std::out_of_range("the case holds no tensor " + name);
  return found->second;
}

TensorMap GoldenCase::WithPrefix(const std::string& prefix) const {
  TensorMap found;
  for (const auto& [name, tensor] : tensors) {
    if (name.starts_with(prefix)) found[name.substr(prefix.size())] = tensor;
  }
  return found;
}

Framework GoldenCase::framework() const { return FrameworkOf(manifest); }

void GoldenCase::ExpectClose(const at::Tensor& actual, const std::string& expected, const std::string& group) const {
  ExpectClose(actual, At(expected), expected, group);
}

void GoldenCase::ExpectClose(const at::Tensor& actual, const at::Tensor& expected, const std::string& what,
                             const std::string& group) const {
  ASSERT_TRUE(actual.defined()) << what;
  ASSERT_EQ(actual.sizes(), expected.sizes()) << what;
  const auto tolerance = manifest.at("tolerance").at(group);
  const double rtol = tolerance.at("rtol"), atol = tolerance.at("atol");
  const at::Tensor a = actual.detach().to(at::kDouble), b = expected.to(at::kDouble);
  const at::Tensor far = at::isclose(a, b, rtol, atol).logical_not();
  EXPECT_EQ(far.sum().item<int64_t>(), 0) << what << ": of " << a.numel() << " numbers; the largest difference is "
                                          << (a - b).abs().nan_to_num().max().item<double>() << ", allowed are " << atol
                                          << " + " << rtol << " times the number";
}

}  // namespace heed::nn
