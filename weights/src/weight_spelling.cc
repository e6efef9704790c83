#include "weight_spelling.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>

namespace heed {
namespace {

bool IsNumber(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

std::string Joined(const std::string& front, const std::string& back) {
  return front + (front.empty() || back.empty() ? "" : ".") + back;
}

// How many components at the end of `path` the pattern takes, 0 where it does not fit; `number` becomes what '#' stands for.
std::size_t Fits(std::string_view pattern, const NamePath& path, std::string& number) {
  const NamePath words = SplitName(pattern, ".");
  if (words.size() > path.size()) return 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& component = path[path.size() - words.size() + i];
    if (!words[i].ends_with('#')) {
      if (component != words[i]) return 0;
      continue;
    }
    const std::string_view word(words[i].data(), words[i].size() - 1);
    if (!component.starts_with(word) || !IsNumber(std::string_view(component).substr(word.size()))) return 0;
    number = component.substr(word.size());
  }
  return words.size();
}

std::string Numbered(std::string_view theirs, const std::string& number) {
  std::string text(theirs);
  const std::size_t at = text.find('#');
  return at == std::string::npos ? text : text.replace(at, 1, number);
}

// The path as the table calls it; nothing where that has no place for it.
std::optional<std::string> TranslatedPath(NamePath path, const WeightTable& table, const ModulePaths& module) {
  std::string translated;
  while (!path.empty()) {
    std::string component = path.back(), number;
    std::size_t taken = 1;
    for (const PathRow& row : table.paths) {
      const std::size_t fits = Fits(row.heed, path, number);
      if (fits == 0) continue;
      const auto beside = JoinName({path.begin(), path.end() - static_cast<std::ptrdiff_t>(fits)}, '.');
      if (!row.beside.empty() && !module.Has(Joined(beside, std::string(row.beside)))) continue;
      if (!row.holds.empty() && !module.Has(Joined(JoinName(path, '.'), std::string(row.holds)))) continue;
      if (row.theirs == kNoCounterpart) return std::nullopt;
      component = Numbered(row.theirs, number);
      taken = fits;
      break;
    }
    translated = Joined(component, translated);
    path.resize(path.size() - taken);
  }
  return translated;
}

// A parameter's name taken apart.
struct ParsedName {
  explicit ParsedName(const std::string& name) : layer(SplitName(name, ".")) {
    parameter = layer.back();
    layer.pop_back();
    if (!layer.empty()) part = PartOf(layer.back());
  }
  NamePath layer;
  std::string parameter;
  std::optional<LayerPart> part;
};

void AddRows(const WeightTable& table, std::span<const WeightRow> rows, LayerPart part, const std::string& parameter,
             const std::optional<std::string>& path, std::vector<Spelling>& spellings) {
  std::string end = parameter;
  for (const WeightRow& row : table.rest) {
    if (row.part == LayerPart::kDense && row.parameter == parameter) end = row.theirs;
  }
  for (const WeightRow& row : rows) {
    const bool whole = row.parameter.empty() && (parameter == "weight" || parameter == "bias");
    if (row.part != part || (!whole && row.parameter != parameter) || !path) continue;
    const Layout layout = whole && parameter == "bias" ? row.bias_layout : row.layout;
    spellings.push_back({Joined(*path, std::string(row.theirs) + (whole ? end : "")), layout});
  }
}

void AddSecondNames(const WeightTarget& target, const WeightTable& table, const ModulePaths& module,
                    std::vector<Spelling>& spellings) {
  for (const SecondName& row : table.second_names) {
    if (!IsEndOf(row.heed, target.name)) continue;
    const std::size_t kept = target.name.size() - row.heed.size();
    const std::string outer = target.name.substr(0, kept == 0 ? 0 : kept - 1);
    const auto has = [&](std::string_view layer) { return module.Has(Joined(outer, std::string(layer))); };
    if (has(row.beside) && !has(row.unless)) spellings.push_back({Joined(outer, std::string(row.theirs)), Layout::kSame, true});
  }
}

}  // namespace

ModulePaths::ModulePaths(const std::vector<WeightTarget>& targets) {
  for (const WeightTarget& target : targets) {
    for (std::size_t dot = target.name.find('.'); dot != std::string::npos; dot = target.name.find('.', dot + 1)) {
      paths_.insert(target.name.substr(0, dot));
    }
    paths_.insert(target.name);
    attends_ = attends_ || IsEndOf("W_q.weight", target.name);
    has_attention_bias_ = has_attention_bias_ || IsEndOf("W_q.bias", target.name);
  }
}

std::vector<Spelling> SpellingsOf(const WeightTarget& target, const WeightTable& table, const ModulePaths& module) {
  std::vector<Spelling> spellings;
  const ParsedName name(target.name);
  const bool is_parameter = std::string_view(target.kind) == "parameter";
  if (is_parameter && name.part) {
    const bool of_attention = *name.part == LayerPart::kScheme || (IsProjection(*name.part) && !table.attention.empty());
    if (of_attention) {
      const NamePath attention(name.layer.begin(), name.layer.end() - 1);
      AddRows(table, table.attention, *name.part, name.parameter, TranslatedPath(attention, table, module), spellings);
    } else {
      const LayerPart part = IsProjection(*name.part) ? LayerPart::kDense : *name.part;
      AddRows(table, table.rest, part, name.parameter, TranslatedPath(name.layer, table, module), spellings);
    }
  }
  if (spellings.empty() && table.keeps_others) {
    const std::optional<std::string> path = TranslatedPath(name.layer, table, module);
    if (path) spellings.push_back({Joined(*path, name.parameter)});
  }
  if (is_parameter && !spellings.empty()) AddSecondNames(target, table, module, spellings);
  return spellings;
}

bool IsSwitchedOff(const WeightTarget& target, const WeightTable& table, const ModulePaths& module) {
  const ParsedName name(target.name);
  if (table.biases != Biases::kSwitch || name.parameter != "bias" || name.layer.empty()) return false;
  if (name.layer.back() == "final_norm") return module.AttendsWithoutBias();
  if (name.layer.size() < 2 || (name.layer.back() != "ln" && name.layer[name.layer.size() - 2] != "ffn")) return false;
  const std::string block = JoinName({name.layer.begin(), name.layer.end() - 2}, '.');
  for (const char* attention : {"attention", "attention1"}) {
    const std::string projection = Joined(block, attention) + ".W_q";
    if (module.Has(projection)) return !module.Has(projection + ".bias");
  }
  return false;
}

}  // namespace heed
