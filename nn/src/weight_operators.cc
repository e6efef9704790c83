// torch.ops.heed.load_weights and its kin: the weight tables for modules that live in another language. Such a module is
// described by its parameters' names and by its attention layers; the tables then work on a stand-in of the same structure.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <torch/library.h>

#include "heed/error.h"
#include "heed/nn/multi_head_attention.h"
#include "heed/nn/safetensors.h"
#include "heed/nn/weights.h"
#include "translate_errors.h"

namespace heed::nn {
namespace {

// Attention layers by the path of the module: heads and key heads. A path is "" for the module itself.
struct AttentionLayers {
  const std::vector<std::string>& paths;
  const std::vector<int64_t>& heads;
  const std::vector<int64_t>& kv_heads;
};

// Restores PyTorch's generator: a stand-in's own parameters are drawn and then replaced.
class KeepGenerator {
 public:
  KeepGenerator() : generator_(at::detail::getDefaultCPUGenerator()), state_(generator_.get_state()) {}
  ~KeepGenerator() { generator_.set_state(state_); }
  KeepGenerator(const KeepGenerator&) = delete;
  KeepGenerator& operator=(const KeepGenerator&) = delete;

 private:
  at::Generator generator_;
  at::Tensor state_;
};

// A tree of modules whose parameters are the caller's own memory.
class StandIn {
 public:
  StandIn(const std::vector<std::string>& names, const std::vector<at::Tensor>& parameters, const AttentionLayers& layers) {
    TORCH_CHECK_VALUE(names.size() == parameters.size(), "load_weights: expected as many names as parameters, got ",
                      names.size(), " and ", parameters.size());
    for (size_t i = 0; i < layers.paths.size(); ++i) {
      attention_[layers.paths[i]] = {layers.heads.at(i), layers.kv_heads.at(i)};
      has_bias_[layers.paths[i]] = false;
    }
    for (const std::string& name : names) {
      const std::string suffix = "W_q.bias";
      if (name.ends_with(suffix)) has_bias_[Parent(Parent(name))] = true;
    }
    nodes_[""] = MakeNode("");
    for (size_t i = 0; i < names.size(); ++i) Place(names[i], parameters[i].detach());
  }
  torch::nn::Module& module() { return *nodes_.at(""); }

 private:
  using Node = std::shared_ptr<torch::nn::Module>;

  static std::string Parent(const std::string& path) {
    const size_t dot = path.rfind('.');
    return dot == std::string::npos ? "" : path.substr(0, dot);
  }

  Node MakeNode(const std::string& path) const {
    const auto found = attention_.find(path);
    if (found == attention_.end()) return std::make_shared<torch::nn::Module>();
    const auto [heads, kv_heads] = found->second;
    return std::make_shared<MultiHeadAttentionImpl>(
        MultiHeadAttentionOptions(heads, heads).kv_heads(kv_heads).bias(has_bias_.at(path)));
  }

  torch::nn::Module& NodeAt(const std::string& path) {
    const auto found = nodes_.find(path);
    if (found != nodes_.end()) return *found->second;
    torch::nn::Module& parent = NodeAt(Parent(path));
    const std::string name = path.substr(path.rfind('.') + 1);
    const auto children = parent.named_children();
    const Node node = children.contains(name) ? children[name] : parent.register_module(name, MakeNode(path));
    nodes_[path] = node;
    return *node;
  }

  void Place(const std::string& name, const at::Tensor& memory) {
    torch::nn::Module& node = NodeAt(Parent(name));
    const std::string leaf = name.substr(name.rfind('.') + 1);
    auto own = node.named_parameters(/*recurse=*/false);
    if (own.contains(leaf)) {
      own[leaf].set_data(memory);
    } else {
      node.register_parameter(leaf, memory, /*requires_grad=*/false);
    }
  }

  std::map<std::string, std::pair<int64_t, int64_t>> attention_;
  std::map<std::string, bool> has_bias_;
  std::map<std::string, Node> nodes_;
};

// NOLINTBEGIN(performance-unnecessary-value-param): the dispatcher hands lists over by value
void LoadTensors(std::vector<std::string> names, std::vector<at::Tensor> parameters, std::vector<std::string> attention_paths,
                 std::vector<int64_t> heads, std::vector<int64_t> kv_heads, std::vector<std::string> source_names,
                 std::vector<at::Tensor> sources, std::string framework) {
  TranslateErrors([&] {
    if (source_names.size() != sources.size()) throw InvalidArgument("load_weights: expected as many names as tensors");
    const KeepGenerator keep;
    TensorMap tensors;
    for (size_t i = 0; i < sources.size(); ++i) tensors[source_names[i]] = sources[i];
    load_weights(StandIn(names, parameters, {attention_paths, heads, kv_heads}).module(), tensors, ParseFramework(framework));
  });
}

void LoadFile(std::vector<std::string> names, std::vector<at::Tensor> parameters, std::vector<std::string> attention_paths,
              std::vector<int64_t> heads, std::vector<int64_t> kv_heads, std::string path, std::string framework) {
  TranslateErrors([&] {
    const KeepGenerator keep;
    load_weights(StandIn(names, parameters, {attention_paths, heads, kv_heads}).module(), path, ParseFramework(framework));
  });
}

void SaveFile(std::vector<std::string> names, std::vector<at::Tensor> parameters, std::string path, std::string framework) {
  TranslateErrors([&] { save_weights(StandIn(names, parameters, {{}, {}, {}}).module(), path, ParseFramework(framework)); });
}

// NOLINTEND(performance-unnecessary-value-param)

}  // namespace

TORCH_LIBRARY_FRAGMENT(heed, m) {
  m.def(
      "load_weights(str[] names, Tensor(a!)[] parameters, str[] attention_paths, int[] heads, int[] kv_heads, "
      "str[] source_names, Tensor[] sources, str framework) -> ()",
      &LoadTensors);
  m.def(
      "load_weights_file(str[] names, Tensor(a!)[] parameters, str[] attention_paths, int[] heads, int[] kv_heads, "
      "str path, str framework) -> ()",
      &LoadFile);
  m.def("save_weights(str[] names, Tensor[] parameters, str path, str framework) -> ()", &SaveFile);
}

}  // namespace heed::nn
