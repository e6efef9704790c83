#include "heed/nn/cloneable.h"

#include <unordered_map>

namespace heed::nn {
namespace {

struct Copies {
  int scopes = 0;
  // Originals are kept alive, so that no other module takes the address of one.
  std::unordered_map<std::shared_ptr<torch::nn::Module>, std::shared_ptr<torch::nn::Module>> of;
};

Copies& ThreadCopies() {
  static thread_local Copies copies;
  return copies;
}

}  // namespace

CloneScope::CloneScope() { ++ThreadCopies().scopes; }

CloneScope::~CloneScope() {
  Copies& copies = ThreadCopies();
  if (--copies.scopes == 0) copies.of.clear();
}

std::shared_ptr<torch::nn::Module> CloneScope::Copy(const std::shared_ptr<torch::nn::Module>& original) {
  Copies& copies = ThreadCopies();
  if (copies.scopes == 0) return original->clone();
  const auto known = copies.of.find(original);
  if (known != copies.of.end()) return known->second;
  std::shared_ptr<torch::nn::Module> copy = original->clone();
  copies.of.emplace(original, copy);
  return copy;
}

}  // namespace heed::nn
