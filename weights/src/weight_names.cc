#include "weight_names.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

namespace heed {
namespace {

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
void NumberBlocks(NamePath& path) {
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

constexpr std::string_view kBlockClasses[] = {"transformer_encoder_block", "transformer_decoder_block"};

// Keras's files name the members of a list after their class: transformer_encoder_block, transformer_encoder_block_1, ... The
// numbers may start anywhere; their order is the blocks' order.
void RankBlocks(std::vector<NamePath>& paths) {
  std::map<int64_t, std::vector<std::string*>> blocks;
  for (NamePath& path : paths) {
    for (std::size_t i = 1; i < path.size(); ++i) {
      for (const std::string_view class_name : kBlockClasses) {
        const std::optional<int64_t> number = KerasNumber(path[i], class_name);
        if (path[i - 1] == "blks" && number) blocks[*number].push_back(&path[i]);
      }
    }
  }
  int rank = 0;
  for (auto& [number, components] : blocks) {
    for (std::string* component : components) *component = "block" + std::to_string(rank);
    ++rank;
  }
}

struct NumberedLayer {
  LayerPart kind;  // kDense, kNorm or kEmbedding
  int64_t number;
  std::string parameter;  // "kernel", "weight", ...
};

constexpr std::pair<std::string_view, LayerPart> kGluonLayers[] = {
    {"dense", LayerPart::kDense}, {"layernorm", LayerPart::kNorm}, {"embedding", LayerPart::kEmbedding}};
constexpr std::pair<std::string_view, LayerPart> kKerasLayers[] = {
    {"dense", LayerPart::kDense}, {"layer_normalization", LayerPart::kNorm}, {"embedding", LayerPart::kEmbedding}};
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

std::optional<NumberedLayer> ParseNumbered(const NamePath& path, Numbering numbering) {
  if (numbering == Numbering::kGluon) return ParseGluon(path.back());
  return path.size() < 2 ? std::nullopt : ParseKeras(path[path.size() - 2], path.back());
}

// The module's layers of one kind, in the order of their parameters.
std::map<LayerPart, std::vector<NamePath>> LayersOf(const std::vector<std::string>& parameters) {
  std::map<LayerPart, std::vector<NamePath>> layers;
  for (const std::string& parameter : parameters) {
    NamePath layer = SplitName(parameter, ".");
    layer.pop_back();
    if (layer.empty() || layer.back() == "final_norm") continue;  // d2l has none
    const std::optional<LayerPart> part = PartOf(layer.back());
    if (!part) continue;
    std::vector<NamePath>& same = layers[IsProjection(*part) ? LayerPart::kDense : *part];
    if (same.empty() || same.back() != layer) same.push_back(layer);
  }
  return layers;
}

// Where there are not as many numbers as layers, the names are no numbers of layers: they stay, and tell what they are.
void NameNumberedLayers(std::vector<NamePath>& paths, const std::vector<std::string>& parameters, Numbering numbering) {
  std::vector<std::optional<NumberedLayer>> numbered;
  std::map<LayerPart, std::map<int64_t, std::size_t>> ranks;  // of the numbers in use
  for (const NamePath& path : paths) {
    numbered.push_back(ParseNumbered(path, numbering));
    if (numbered.back()) ranks[numbered.back()->kind][numbered.back()->number] = 0;
  }
  // "embedding" alone is also an attribute's name.
  if (!ranks.contains(LayerPart::kDense) && !ranks.contains(LayerPart::kNorm)) return;
  std::map<LayerPart, std::vector<NamePath>> layers = LayersOf(parameters);
  for (auto& [kind, used] : ranks) {
    std::size_t next = 0;
    for (auto& [number, rank] : used) rank = next++;
    if (layers[kind].size() != next) layers.erase(kind);
  }
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (!numbered[i] || !layers.contains(numbered[i]->kind)) continue;
    paths[i] = layers.at(numbered[i]->kind)[ranks.at(numbered[i]->kind).at(numbered[i]->number)];
    paths[i].push_back(numbered[i]->parameter);
  }
}

}  // namespace

NamePath SplitName(std::string_view name, const char* separators) {
  NamePath path(1);
  for (const char c : name) {
    if (std::string_view(separators).find(c) == std::string_view::npos) {
      path.back() += c;
    } else {
      path.emplace_back();
    }
  }
  return path;
}

std::string JoinName(const NamePath& path, char separator) {
  std::string name;
  for (const std::string& component : path) name += (name.empty() ? "" : std::string(1, separator)) + component;
  return name;
}

bool IsEndOf(std::string_view end, std::string_view name) {
  return name.ends_with(end) && (name.size() == end.size() || name[name.size() - end.size() - 1] == '.');
}

int64_t HeadsOfProjection(const std::vector<AttentionHeads>& attention, const std::string& parameter) {
  for (const AttentionHeads& layer : attention) {
    const std::string prefix = layer.path.empty() ? "" : layer.path + ".";
    for (const char* name : {"W_q.", "W_o."}) {
      if (parameter.starts_with(prefix + name)) return layer.heads;
    }
    for (const char* name : {"W_k.", "W_v."}) {
      if (parameter.starts_with(prefix + name)) return layer.kv_heads;
    }
  }
  return 0;
}

std::string WithNumberedBlocks(const std::string& dotted_name) {
  NamePath path = SplitName(dotted_name, ".");
  NumberBlocks(path);
  return JoinName(path, '.');
}

std::vector<std::string> DottedNames(const std::vector<std::string>& names, const std::vector<std::string>& parameters,
                                     Numbering numbering) {
  std::vector<NamePath> paths;
  for (const std::string& name : names) {
    const bool has_index = name.ends_with(":0");  // TensorFlow's variables carry the index of an output
    paths.push_back(SplitName(has_index ? name.substr(0, name.size() - 2) : name, "./"));
    NumberBlocks(paths.back());
  }
  if (numbering == Numbering::kKeras) RankBlocks(paths);
  if (numbering != Numbering::kNone) NameNumberedLayers(paths, parameters, numbering);
  std::vector<std::string> dotted;
  dotted.reserve(paths.size());
  for (const NamePath& path : paths) dotted.push_back(JoinName(path, '.'));
  return dotted;
}

}  // namespace heed
