// The blocks of a stack.
#ifndef HEED_NN_SRC_BLOCK_LIST_H_
#define HEED_NN_SRC_BLOCK_LIST_H_

#include <memory>
#include <optional>
#include <utility>

#include <torch/nn/modules/container/sequential.h>

namespace heed::nn {

// torch::nn::Sequential whose copies keep the names of its modules; LibTorch's call them 0, 1, ..., so that the names of their
// parameters fit no file of the original.
class BlockListImpl : public torch::nn::SequentialImpl {
 public:
  std::shared_ptr<torch::nn::Module> clone(const std::optional<torch::Device>& device = std::nullopt) const override {
    auto copy = std::make_shared<BlockListImpl>();
    auto block = begin();
    for (const auto& child : named_children()) copy->push_back(child.key(), (block++)->clone(device));
    return copy;
  }
};

inline torch::nn::Sequential MakeBlockList() {
  std::shared_ptr<torch::nn::SequentialImpl> blocks = std::make_shared<BlockListImpl>();
  return torch::nn::Sequential(std::move(blocks));
}

}  // namespace heed::nn

#endif  // HEED_NN_SRC_BLOCK_LIST_H_
