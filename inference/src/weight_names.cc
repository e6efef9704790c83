#include "weight_names.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

namespace heed {
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

// What follows `word`, which the text must begin with.
std::optional<std::string_view> After(std::string_view text, std::string_view word) {
  if (!text.starts_with(word)) return std::nullopt;
  return text.substr(word.size());
}

// One to nine digits.
std::optional<int64_t> Number(std::string_view text) {
  constexpr std::size_t kMostDigits = 9;
  if (text.empty() || text.size() > kMostDigits) return std::nullopt;
  int64_t number = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    number = 10 * number + (c - '0');
  }
  return number;
}

// The number of Keras's "dense", "dense_1", ...: 0 where there is none.
std::optional<int64_t> KerasNumber(std::string_view text, std::string_view class_name) {
  const std::optional<std::string_view> rest = After(text, class_name);
  if (!rest) return std::nullopt;
  return rest->empty() ? 0 : Number(rest->starts_with('_') ? rest->substr(1) : std::string_view());
}

// "blks", "0" and "blks_0" become "blks", "block0".
void NumberBlocks(Path& path) {
  for (std::size_t i = 0; i < path.size(); ++i) {
    const std::optional<std::string_view> joined = After(path[i], "blks_");
    if (joined && Number(*joined)) {
      const std::string block = "block" + std::string(*joined);
      path[i] = "blks";
      path.insert(path.begin() + static_cast<std::ptrdiff_t>(i) + 1, block);
    } else if (path[i] == "blks" && i + 1 < path.size() && Number(path[i + 1])) {
      path[i + 1] = "block" + path[i + 1];
    }
  }
}

// Keras's files name the members of a list after their class: transformer_encoder_block, transformer_encoder_block_1, ... The
// numbers may start anywhere; their order is the blocks' order.
void RankBlocks(std::vector<Path>& paths) {
  std::map<int64_t, std::vector<std::string*>> blocks;
  for (Path& path : paths) {
    for (std::size_t i = 1; i < path.size(); ++i) {
      const std::optional<int64_t> number = KerasNumber(path[i], "transformer_encoder_block");
      if (path[i - 1] == "blks" && number) blocks[*number].push_back(&path[i]);
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

constexpr std::pair<std::string_view, LayerKind> kGluonLayers[] = {
    {"dense", LayerKind::kDense}, {"layernorm", LayerKind::kNorm}, {"embedding", LayerKind::kEmbedding}};
constexpr std::pair<std::string_view, LayerKind> kKerasLayers[] = {
    {"dense", LayerKind::kDense}, {"layer_normalization", LayerKind::kNorm}, {"embedding", LayerKind::kEmbedding}};
constexpr std::string_view kGluonParameters[] = {"weight", "bias", "gamma", "beta"};
constexpr std::string_view kKerasVariables[] = {"kernel", "bias", "gamma", "beta", "embeddings"};

// "dense12_weight", "transformer0_layernorm3_gamma"
std::optional<NumberedLayer> ParseGluon(std::string_view name) {
  const std::size_t underscore = name.rfind('_');
  if (underscore == std::string_view::npos) return std::nullopt;
  const std::string_view parameter = name.substr(underscore + 1);
  if (std::ranges::find(kGluonParameters, parameter) == std::ranges::end(kGluonParameters)) return std::nullopt;
  std::string_view layer = name.substr(0, underscore);
  layer = layer.substr(layer.rfind('_') + 1);
  for (const auto& [word, kind] : kGluonLayers) {
    const std::optional<std::string_view> digits = After(layer, word);
    const std::optional<int64_t> number = digits ? Number(*digits) : std::nullopt;
    if (number) return NumberedLayer{kind, *number, std::string(parameter)};
  }
  return std::nullopt;
}

// "dense_9", "kernel"
std::optional<NumberedLayer> ParseKeras(std::string_view layer, std::string_view variable) {
  if (std::ranges::find(kKerasVariables, variable) == std::ranges::end(kKerasVariables)) return std::nullopt;
  for (const auto& [word, kind] : kKerasLayers) {
    if (const std::optional<int64_t> number = KerasNumber(layer, word)) {
      return NumberedLayer{kind, *number, std::string(variable)};
    }
  }
  return std::nullopt;
}

std::optional<NumberedLayer> ParseNumbered(const Path& path) {
  std::optional<NumberedLayer> gluon = ParseGluon(path.back());
  if (gluon || path.size() < 2) return gluon;
  return ParseKeras(path[path.size() - 2], path.back());
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
  std::map<LayerKind, std::map<int64_t, std::size_t>> ranks;  // of the numbers in use
  for (const Path& path : paths) {
    numbered.push_back(ParseNumbered(path));
    if (numbered.back()) ranks[numbered.back()->kind][numbered.back()->number] = 0;
  }
  // "embedding" alone is also an attribute's name.
  if (ranks.count(LayerKind::kDense) == 0 && ranks.count(LayerKind::kNorm) == 0) return;
  for (auto& [kind, used] : ranks) {
    std::size_t next = 0;
    for (auto& [number, rank] : used) rank = next++;
  }
  const std::map<LayerKind, std::vector<Path>> layers = LayersOf(parameters);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (!numbered[i] || layers.count(numbered[i]->kind) == 0) continue;
    const std::vector<Path>& known = layers.at(numbered[i]->kind);
    const std::size_t rank = ranks.at(numbered[i]->kind).at(numbered[i]->number);
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
  const Path own = Split(dotted_name, ".");
  std::string name;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const std::optional<std::string_view> digits =
        i + 2 < own.size() && own[i] == "blks" ? After(own[i + 1], "block") : std::nullopt;
    const bool is_block = digits && !digits->empty() && digits->find_first_not_of("0123456789") == std::string_view::npos;
    name += (name.empty() ? "" : ".") + (is_block ? std::string(table.block) + std::string(*digits) : own[i]);
    if (is_block) ++i;
  }
  Path path = Split(name, ".");
  if (!table.scope.empty()) path.insert(path.begin(), std::string(table.scope));
  return Join(path, table.separator);
}

}  // namespace heed
