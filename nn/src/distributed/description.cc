// Arguments in words that are equal where they are the same.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include <ATen/ATen.h>
#include <torch/nn/module.h>

#include "distributed/agreement.h"
#include "heed/nn/attention_position.h"
#include "operator_arguments.h"
#include "tensor_view.h"

namespace heed::nn::distributed {
namespace {

constexpr int64_t kListed = 8;                         // elements up to which numbers are shown
constexpr std::size_t kLooked = 4096, kMostKept = 64;  // bytes that are read sooner than looked up; tensors that are known

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

// Of a contiguous tensor.
std::string Listed(const at::Tensor& tensor) {
  const at::Tensor numbers = tensor.is_floating_point() ? tensor.to(at::kDouble) : tensor.to(at::kLong);
  std::string text = "[";
  const auto list = [&]<class T>(T) {
    for (const T number : ElementsOf<const T>(numbers)) text.append(text.size() > 1 ? ", " : "").append(NumberText(number));
  };
  tensor.is_floating_point() ? list(double{}) : list(int64_t{});
  return text + "]";
}

// Short ones as they are.
std::string ProgramText(const std::string& text) {
  constexpr std::size_t kShown = 64;
  return text.size() <= kShown ? text : text.substr(0, kShown) + ".. " + Digest(std::as_bytes(std::span(text)));
}

std::string ValueText(const c10::IValue& value) {
  if (value.isNone()) return "None";
  if (value.isBool()) return value.toBool() ? "true" : "false";
  if (value.isString()) return ProgramText(value.toStringRef());
  return value.isIntList() ? c10::str(at::IntArrayRef(value.toIntVector())) : NumberText(value.toScalar());
}

uint64_t HashOf(std::span<const std::byte> bytes) {
  constexpr uint64_t kPrime = 0x9e3779b97f4a7c15;
  constexpr std::size_t kLanes = 4;  // multiplications that do not wait for each other
  std::array<uint64_t, kLanes> hashes{1, 2, 3, bytes.size()};
  const auto take = [&](std::size_t lane, uint64_t word) {
    const uint64_t mixed = (hashes[lane] ^ word) * kPrime;
    hashes[lane] = mixed ^ (mixed >> 29);
  };
  std::size_t at = 0;
  const auto word = [&](std::size_t count) {
    uint64_t read = 0;
    std::memcpy(&read, bytes.data() + at, count);
    at += count;
    return read;
  };
  while (bytes.size() - at >= kLanes * sizeof(uint64_t))
    for (std::size_t lane = 0; lane < kLanes; ++lane) take(lane, word(sizeof(uint64_t)));
  while (at < bytes.size()) take(0, word(std::min(sizeof(uint64_t), bytes.size() - at)));
  for (std::size_t lane = 1; lane < kLanes; ++lane) take(0, hashes[lane]);
  take(0, 0);
  return hashes[0];
}

// Digests of tensors that are as they were when they were read.
class KnownDigests {
 public:
  uint64_t Of(const at::Tensor& tensor) {
    if (tensor.nbytes() <= kLooked || tensor.is_inference()) return Read(tensor);
    const State now{tensor.storage_offset(), tensor.sizes().vec(), tensor.strides().vec(), tensor.scalar_type(),
                    tensor._version()};
    const c10::StorageImpl* place = tensor.storage().unsafeGetStorageImpl();
    const std::scoped_lock lock(mutex_);
    const auto found = known_.find(place);
    if (found != known_.end() && found->second.state == now) return found->second.digest;
    if (known_.size() >= kMostKept) std::erase_if(known_, [](const auto& of) { return of.second.storage.expired(); });
    if (known_.size() >= kMostKept) known_.clear();
    return known_.insert_or_assign(place, Known{tensor.storage().getWeakStorageImpl(), now, Read(tensor)}).first->second.digest;
  }

 private:
  // Offset, sizes, strides, type and version.
  using State = std::tuple<int64_t, std::vector<int64_t>, std::vector<int64_t>, at::ScalarType, int64_t>;
  struct Known {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;  // for as long as it is held no other one is at its address
    State state;
    uint64_t digest;
  };

  static uint64_t Read(const at::Tensor& tensor) {
    const at::Tensor bytes = tensor.contiguous().view(-1).view(at::kByte);
    return HashOf(std::as_bytes(ElementsOf<const uint8_t>(bytes)));
  }

  std::mutex mutex_;
  std::unordered_map<const c10::StorageImpl*, Known> known_;
};

// Rows that are one row again and again are read once.
at::Tensor Unrepeated(at::Tensor tensor) {
  for (int64_t d = 0; d < tensor.dim(); ++d)
    if (tensor.stride(d) == 0 && tensor.size(d) > 1) tensor = tensor.narrow(d, 0, 1);
  return tensor;
}

std::string HexText(uint64_t number) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(number));
  return text.data();
}

// Whether it has numbers here. One of a class of its own says by itself what they are.
bool Readable(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.layout() == at::kStrided && !tensor.is_nested() && !tensor.is_quantized() &&
         !tensor.key_set().has(c10::DispatchKey::Python);
}

}  // namespace

std::string Digest(std::span<const std::byte> bytes) { return HexText(HashOf(bytes)); }

std::string DescribedShape(const at::Tensor& tensor) { return DescribedPart(tensor, -1); }

std::string Described(const at::Tensor& given) {
  std::string text = DescribedShape(given);
  if (given.requires_grad() || !Readable(given)) return text;
  static KnownDigests known;
  const at::Tensor numbers = Dense("tensor", given.detach());
  const bool few = given.numel() <= kListed && !given.is_complex();
  return text.append(" ").append(few ? Listed(numbers.contiguous()) : HexText(known.Of(Unrepeated(numbers))));
}

std::string DescribedPart(const at::Tensor& tensor, int64_t ranked) {
  if (tensor.is_nested()) return TypeName(tensor) + " nested";
  std::string text = TypeName(tensor) + " [";
  for (int64_t d = 0; d < tensor.dim(); ++d)
    text.append(d > 0 ? ", " : "").append(d == ranked ? "*" : std::to_string(tensor.size(d)));
  return text + "]" + GradientText(tensor);
}

void Describe(const AttentionOptions& options, Facts& facts) {
  AttentionTensors tensors = options.tensors();
  const auto all = tensors.All();
  for (std::size_t t = 0; t < all.size(); ++t) {
    if (!all[t]->defined()) continue;
    const bool table = t < AttentionTensors::kDifferentiable && all[t] != &tensors.bias;
    facts.emplace_back(AttentionTensors::kNames[t], table ? DescribedShape(*all[t]) : Described(*all[t]));
  }
  for (const auto& [name, value] : NamedNumbers(options))
    facts.emplace_back(name == "score_program" ? "score" : name, ValueText(value));
  facts.emplace_back("seed", ValueText(options.seed()));
  facts.emplace_back("return_statistics", options.return_statistics() ? "true" : "false");
}

void Describe(const AttentionPosition* scheme, Facts& facts) {
  if (scheme == nullptr) return;
  const auto* module = dynamic_cast<const torch::nn::Module*>(scheme);
  facts.emplace_back("position", module == nullptr ? typeid(*scheme).name() : module->name());
  if (module == nullptr) return;
  for (const auto& tensors : {module->named_parameters(), module->named_buffers()})
    for (const auto& tensor : tensors)
      if (tensor.value().defined()) facts.emplace_back("position." + tensor.key(), Described(tensor.value()));
}

}  // namespace heed::nn::distributed
