#include "weights_names.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <regex>
#include <set>

namespace heed::nn {
namespace {

using Path = std::vector<std::string>;

Path Split(const std::string& name, const char* separators) {
  Path path(1);
  for (char c : name) {
    if (std::string_view(separators).find(c) == std::string_view::npos) {
      path.back() += c;
    } else {
      path.emplace_back();
    }
  }
  return path;
}

std::string Join(const Path& path, char separator) {
  std::string name;
  for (const std::string& component : path) name += (name.empty() ? "" : std::string(1, separator)) + component;
  return name;
}

// "blks", "0" and "blks_0" become "blks", "block0".
void NumberBlocks(Path& path) {
  static const std::regex joined("blks_([0-9]{1,9})"), number("[0-9]{1,9}");
  for (std::size_t i = 0; i < path.size(); ++i) {
    std::smatch match;
    if (std::regex_match(path[i], match, joined)) {
      const std::string block = "block" + match[1].str();
      path[i] = "blks";
      path.insert(path.begin() + static_cast<std::ptrdiff_t>(i) + 1, block);
    } else if (path[i] == "blks" && i + 1 < path.size() && std::regex_match(path[i + 1], number)) {
      path[i + 1] = "block" + path[i + 1];
    }
  }
}

// Keras's files name the members of a list after their class: transformer_encoder_block, transformer_encoder_block_1, ... The
// numbers may start anywhere; their order is the blocks' order.
void RankBlocks(std::vector<Path>& paths) {
  static const std::regex class_name("transformer_encoder_block(?:_([0-9]{1,9}))?");
  std::map<int64_t, std::vector<std::string*>> blocks;
  for (Path& path : paths) {
    for (std::size_t i = 1; i < path.size(); ++i) {
      std::smatch match;
      if (path[i - 1] == "blks" && std::regex_match(path[i], match, class_name)) {
        blocks[match[1].matched ? std::atoll(match[1].str().c_str()) : 0].push_back(&path[i]);
      }
    }
  }
  int rank = 0;
  for (auto& [number, components] : blocks) {
    for (std::string* component : components) *component = "block" + std::to_string(rank);
    ++rank;
  }
}

enum class LayerKind { kDense, kNorm, kEmbedding };

struct NumberedLayer {
  LayerKind kind;
  int64_t number;
  std::string parameter;  // "kernel", "weight", ...
};

LayerKind KindOf(const std::string& class_name) {
  if (class_name == "dense") return LayerKind::kDense;
  return class_name == "embedding" ? LayerKind::kEmbedding : LayerKind::kNorm;
}

std::optional<NumberedLayer> ParseNumbered(const Path& path) {
  static const std::regex gluon("(?:.*_)?(dense|layernorm|embedding)([0-9]{1,9})_(weight|bias|gamma|beta)");
  static const std::regex keras("(dense|layer_normalization|embedding)(?:_([0-9]{1,9}))?");
  static const std::regex keras_variable("kernel|bias|gamma|beta|embeddings");
  std::smatch match;
  if (std::regex_match(path.back(), match, gluon)) {
    return NumberedLayer{KindOf(match[1]), std::atoll(match[2].str().c_str()), match[3]};
  }
  if (path.size() >= 2 && std::regex_match(path.back(), keras_variable) &&
      std::regex_match(path[path.size() - 2], match, keras)) {
    return NumberedLayer{KindOf(match[1]), match[2].matched ? std::atoll(match[2].str().c_str()) : 0, path.back()};
  }
  return std::nullopt;
}

// The module's layers of one kind, in the order of their parameters.
std::map<LayerKind, std::vector<Path>> LayersOf(const std::vector<std::string>& parameters) {
  std::map<LayerKind, std::vector<Path>> layers;
  for (const std::string& parameter : parameters) {
    Path layer = Split(parameter, ".");
    layer.pop_back();
    if (layer.empty()) continue;
    std::optional<LayerKind> kind;
    if (IsDenseLayer(layer.back())) kind = LayerKind::kDense;
    if (layer.back() == "ln") kind = LayerKind::kNorm;
    if (layer.back() == "embedding") kind = LayerKind::kEmbedding;
    if (kind && (layers[*kind].empty() || layers[*kind].back() != layer)) layers[*kind].push_back(layer);
  }
  return layers;
}

void NameNumberedLayers(std::vector<Path>& paths, const std::vector<std::string>& parameters) {
  std::vector<std::optional<NumberedLayer>> numbered;
  std::map<LayerKind, std::set<int64_t>> numbers;
  for (const Path& path : paths) {
    numbered.push_back(ParseNumbered(path));
    if (numbered.back()) numbers[numbered.back()->kind].insert(numbered.back()->number);
  }
  // "embedding" alone is also an attribute's name.
  if (numbers.count(LayerKind::kDense) == 0 && numbers.count(LayerKind::kNorm) == 0) return;
  const std::map<LayerKind, std::vector<Path>> layers = LayersOf(parameters);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (!numbered[i] || layers.count(numbered[i]->kind) == 0) continue;
    const std::set<int64_t>& used = numbers[numbered[i]->kind];
    const std::vector<Path>& known = layers.at(numbered[i]->kind);
    const auto rank = static_cast<std::size_t>(std::distance(used.begin(), used.find(numbered[i]->number)));
    if (rank >= known.size()) continue;  // stays as it is and will find no parameter
    paths[i] = known[rank];
    paths[i].push_back(numbered[i]->parameter);
  }
}

}  // namespace

std::vector<std::string> DottedNames(const std::vector<std::string>& names, const std::vector<std::string>& parameters) {
  std::vector<Path> paths;
  for (const std::string& name : names) {
    const bool has_index = name.ends_with(":0");  // TensorFlow's variables carry the index of an output
    paths.push_back(Split(has_index ? name.substr(0, name.size() - 2) : name, "./"));
    NumberBlocks(paths.back());
  }
  RankBlocks(paths);
  NameNumberedLayers(paths, parameters);
  std::vector<std::string> dotted;
  dotted.reserve(paths.size());
  for (const Path& path : paths) dotted.push_back(Join(path, '.'));
  return dotted;
}

std::size_t SharedComponents(const std::vector<std::string>& dotted_names) {
  if (dotted_names.empty()) return 0;
  Path shared = Split(dotted_names.front(), ".");
  shared.pop_back();
  for (const std::string& name : dotted_names) {
    const Path path = Split(name, ".");
    const auto end = std::mismatch(shared.begin(), shared.end(), path.begin(), path.end() - 1).first;
    shared.erase(end, shared.end());
  }
  return shared.size();
}

std::string WithoutComponents(const std::string& dotted_name, std::size_t count) {
  Path path = Split(dotted_name, ".");
  path.erase(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(count));
  return Join(path, '.');
}

std::string NativeName(const std::string& dotted_name, const FrameworkTable& table) {
  static const std::regex block("(^|\\.)blks\\.block([0-9]+)\\.");
  const std::string numbered = std::regex_replace(dotted_name, block, "$1" + std::string(table.block) + "$2.");
  Path path = Split(numbered, ".");
  if (!table.scope.empty()) path.insert(path.begin(), std::string(table.scope));
  return Join(path, table.separator);
}

}  // namespace heed::nn
