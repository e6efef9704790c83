// Copies of modules that keep shared submodules shared.
#ifndef HEED_NN_CLONEABLE_H_
#define HEED_NN_CLONEABLE_H_

#include <memory>
#include <optional>

#include <torch/nn/cloneable.h>

namespace heed::nn {

// While it lives, this thread copies a scheme that several modules share once, and their copies share the copy. Scopes nest;
// the outermost counts. Without a scope every module gets its own copy.
class CloneScope {
 public:
  CloneScope();
  ~CloneScope();
  CloneScope(const CloneScope&) = delete;
  CloneScope& operator=(const CloneScope&) = delete;

  // The copy of a module that others may share.
  static std::shared_ptr<torch::nn::Module> Copy(const std::shared_ptr<torch::nn::Module>& original);
};

// torch::nn::Cloneable whose clone() opens a CloneScope. Derive a module from it whose layers share a scheme: LibTorch copies a
// module child by child. (torch::nn::Sequential and modules that derive from torch::nn::Cloneable untie shared schemes, unless
// a CloneScope lives around their clone().)
template <class Derived>
class Cloneable : public torch::nn::Cloneable<Derived> {
 public:
  using torch::nn::Cloneable<Derived>::Cloneable;

  std::shared_ptr<torch::nn::Module> clone(const std::optional<torch::Device>& device = std::nullopt) const override {
    const CloneScope scope;
    return torch::nn::Cloneable<Derived>::clone(device);
  }
};

}  // namespace heed::nn

#endif  // HEED_NN_CLONEABLE_H_
