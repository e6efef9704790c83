#include "golden_case.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "heed/safetensors.h"

namespace heed {
namespace {

template <class T>
std::vector<double> Numbers(const std::vector<char>& bytes) {
  std::vector<T> numbers(bytes.size() / sizeof(T));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return {numbers.begin(), numbers.end()};
}

GoldenTensor Read(const SafetensorsFile& file, const SafetensorsEntry& entry) {
  std::vector<char> bytes(static_cast<std::size_t>(entry.end - entry.begin));
  file.Read(entry, bytes.data());
  switch (entry.type->element.value()) {
    case ElementType::kFloat64:
      return {entry.shape, Numbers<double>(bytes)};
    case ElementType::kFloat32:
      return {entry.shape, Numbers<float>(bytes)};
    case ElementType::kInt64:
      return {entry.shape, Numbers<int64_t>(bytes)};
    case ElementType::kInt32:
      return {entry.shape, Numbers<int32_t>(bytes)};
    case ElementType::kBool:
      return {entry.shape, Numbers<uint8_t>(bytes)};
    default:
      throw std::runtime_error("the case holds numbers of another type: " + entry.name);
  }
}

}  // namespace

GoldenCase::GoldenCase(const std::string& name) {
  manifest = GoldenManifest(name);
  options = manifest.at("options");
  const SafetensorsFile file(GoldenFolder() + manifest.at("file").get<std::string>());
  for (const SafetensorsEntry& entry : file.entries()) tensors.emplace(entry.name, Read(file, entry));
}

Framework GoldenCase::framework() const { return FrameworkOf(manifest); }

void GoldenCase::Load(const Parameters& parameters) const {
  constexpr std::string_view kPrefix = "param.";
  std::map<std::string, std::vector<float>> numbers;
  std::map<std::string, Array> arrays;
  for (const auto& [name, tensor] : tensors) {
    if (!name.starts_with(kPrefix)) continue;
    const std::string native = name.substr(kPrefix.size());
    arrays[native] = {tensor.shape, numbers[native] = tensor.floats()};
  }
  LoadWeights(parameters, arrays, framework());
}

void GoldenCase::ExpectClose(const std::vector<float>& actual, const std::string& expected, double tolerance) const {
  const std::vector<double>& numbers = At(expected).numbers;
  ASSERT_EQ(actual.size(), numbers.size());
  double largest = 0.0, farthest = 0.0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    ASSERT_FALSE(std::isnan(actual[i])) << i;
    largest = std::max(largest, std::abs(numbers[i]));
    farthest = std::max(farthest, std::abs(numbers[i] - actual[i]));
  }
  EXPECT_LE(farthest, tolerance * largest) << expected << ", of numbers up to " << largest;
}

}  // namespace heed
