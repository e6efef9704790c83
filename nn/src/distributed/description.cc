// Arguments in words that are equal where they are the same.
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <span>
#include <string>

#include <ATen/ATen.h>
#include <torch/nn/module.h>

#include "distributed/agreement.h"
#include "heed/nn/attention_position.h"
#include "tensor_view.h"

namespace heed::nn::distributed {
namespace {

constexpr int64_t kListed = 8, kDigested = int64_t{1} << 16;  // elements up to which numbers are shown, compared

std::string TypeName(const at::Tensor& tensor) { return std::string(c10::getDtypeNames(tensor.scalar_type()).first); }

const char* GradientText(const at::Tensor& tensor) {
  return tensor.requires_grad() && at::GradMode::is_enabled() ? " that requires a gradient" : "";
}

std::string NumberText(const at::Scalar& number) {
  if (number.isBoolean()) return number.toBool() ? "True" : "False";
  if (number.isIntegral(/*includeBool=*/false)) return std::to_string(number.toLong());
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), number.toDouble()).ptr};
}

std::string Listed(const at::Tensor& tensor) {
  std::string text = "[";
  const at::Tensor flat = tensor.reshape(-1);
  for (int64_t x = 0; x < flat.numel(); ++x) {
    if (x > 0) text += ", ";
    text += NumberText(flat[x].item());
  }
  return text + "]";
}

std::string NumberText(const std::optional<double>& number) { return number ? NumberText(at::Scalar(*number)) : "None"; }
std::string NumberText(const std::optional<int64_t>& number) { return number ? std::to_string(*number) : "None"; }

// Of a scheme its type and its parameters.
std::string SchemeText(const AttentionPosition* scheme) {
  if (scheme == nullptr) return "None";
  const auto* module = dynamic_cast<const torch::nn::Module*>(scheme);
  if (module == nullptr) return typeid(*scheme).name();
  std::string text = module->name();
  for (const auto& parameter : module->named_parameters())
    text.append(" ").append(parameter.key()).append(" ").append(Described(parameter.value()));
  return text;
}

}  // namespace

std::string Digest(std::span<const std::byte> bytes) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const std::byte byte : bytes) hash = (hash ^ std::to_integer<uint64_t>(byte)) * 0x100000001b3;
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(hash));
  return text.data();
}

std::string Described(const at::Tensor& given) {
  if (!given.defined()) return "None";
  std::string text = c10::str(TypeName(given), " ", given.sizes(), GradientText(given));
  const bool rounded = given.is_floating_point() && given.scalar_type() != at::kDouble;
  if (rounded || given.requires_grad() || !given.is_cpu()) return text;
  if (given.numel() <= kListed) return text + " " + Listed(given);
  // A small mask says as much as lengths do; of a large one the ranks compare the shape alone.
  if (given.numel() > kDigested) return text;
  const at::Tensor bytes = given.contiguous().view(-1).view(at::kByte);
  return text + " " + Digest(std::as_bytes(ElementsOf<const uint8_t>(bytes)));
}

std::string DescribedPart(const at::Tensor& tensor, int64_t ranked) {
  std::string text = TypeName(tensor) + " [";
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    if (d > 0) text += ", ";
    text += d == ranked ? "*" : std::to_string(tensor.size(d));
  }
  return text + "]" + GradientText(tensor);
}

void Describe(const AttentionOptions& options, Facts& facts) {
  AttentionTensors tensors = options.tensors();
  const auto all = tensors.All();
  for (std::size_t t = 0; t < all.size(); ++t) facts.emplace_back(AttentionTensors::kNames[t], Described(*all[t]));
  facts.emplace_back("position", SchemeText(options.position().get()));
  facts.emplace_back("score", options.score() ? options.score()->Text() : "None");
  facts.emplace_back("score_extents", c10::str(at::IntArrayRef(options.score_extents())));
  facts.emplace_back("mask_program", options.mask_program() ? options.mask_program()->Text() : "None");
  facts.emplace_back("mask_extents", c10::str(at::IntArrayRef(options.mask_extents())));
  facts.emplace_back("scale", NumberText(options.scale()));
  facts.emplace_back("causal", std::to_string(static_cast<int>(options.causal())));
  facts.emplace_back("window", c10::str("(", options.window().left, ", ", options.window().right, ")"));
  facts.emplace_back("query_offset", NumberText(options.query_offset()));
  facts.emplace_back("key_offset", NumberText(options.key_offset()));
  facts.emplace_back("symmetric", options.symmetric() ? "true" : "false");
  facts.emplace_back("softcap", NumberText(options.softcap()));
  facts.emplace_back("dropout", NumberText(at::Scalar(options.dropout())));
  facts.emplace_back("seed", NumberText(options.seed()));
  facts.emplace_back("batch_offset", std::to_string(options.batch_offset()));
  facts.emplace_back("first_head", std::to_string(options.first_head()));
  facts.emplace_back("first_query", std::to_string(options.first_query()));
  facts.emplace_back("first_key", std::to_string(options.first_key()));
  facts.emplace_back("empty_row", options.empty_row() == EmptyRow::kUniform ? "uniform" : "zero");
  facts.emplace_back("precision", options.precision() == Precision::kFused ? "fused" : "float32");
  facts.emplace_back("return_statistics", options.return_statistics() ? "true" : "false");
}

}  // namespace heed::nn::distributed
