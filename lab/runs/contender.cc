#include "lab/runs/contender.h"

#include <algorithm>
#include <iterator>

namespace heed::lab {
namespace {

bool Recurs(const std::string& encoder) { return encoder == "rnn" || encoder == "gru" || encoder == "lstm"; }

// Schemes that are not called what their options are.
struct NamedScheme {
  const char *name, *label, *phrase;
};
constexpr NamedScheme kNamedSchemes[] = {
    {"alibi", "ALiBi", "ALiBi"},
    {"relative", "relative bias", "a relative bias"},
    {"t5", "T5's bias", "T5's bias"},
    {"shaw", "Shaw", "Shaw's relative positions"},
    {"kerple", "KERPLE", "KERPLE's logarithm"},
    {"kerple_power", "KERPLE's power", "KERPLE's power"},
    {"sandwich", "Sandwich", "Sandwich"},
    {"fire", "FIRE", "FIRE"},
    {"temperature", "temperature", "a temperature"},
    {"sinusoidal_bias", "sinusoidal bias", "a sinusoidal bias"},
    {"transformer_xl", "Transformer-XL", "Transformer-XL's positions"},
    {"xpos", "xPos", "xPos"},
    {"deberta", "DeBERTa", "DeBERTa's positions"},
    {"cope", "CoPE", "contextual positions"},
};

const NamedScheme* Named(const std::string& position) {
  const auto* found = std::ranges::find(kNamedSchemes, position, &NamedScheme::name);
  return found == std::end(kNamedSchemes) ? nullptr : found;
}

}  // namespace

std::vector<std::string> DefaultEncoders() { return {"attention", "convolution", "dilated", "rnn", "gru", "lstm"}; }

std::string SchemeLabel(const std::string& position) {
  const NamedScheme* named = Named(position);
  return named != nullptr ? named->label : position;
}

std::string Contender::Id() const { return attends() ? encoder + "-" + position : encoder; }

std::string Contender::Label() const {
  if (attends()) return position == "none" ? "attention, no positions" : "attention, " + SchemeLabel(position);
  if (encoder == "dilated") return "dilated convolution";
  if (encoder == "gru-attention") return "GRU with attention";
  if (encoder == "decomposable") return "decomposable attention";
  std::string label = encoder;
  if (Recurs(encoder)) {
    std::transform(label.begin(), label.end(), label.begin(), [](char c) { return static_cast<char>(c - 'a' + 'A'); });
  }
  return label;
}

std::string Contender::Phrase() const {
  if (encoder == "decomposable") return Label();
  if (!attends()) return "the " + Label();
  if (position == "none") return "attention without positions";
  if (const NamedScheme* named = Named(position)) return std::string("attention with ") + named->phrase;
  return "attention with " + position + " positions";
}

std::string Contender::Family() const {
  if (Recurs(encoder)) return "recurrence";
  if (encoder == "dilated") return "convolution";
  if (encoder == "gru-attention") return "recurrence with attention";
  return encoder == "decomposable" ? Label() : encoder;
}

std::vector<Contender> Contenders(const std::vector<std::string>& encoders, const std::vector<std::string>& positions) {
  std::vector<Contender> contenders;
  for (const std::string& encoder : encoders) {
    if (encoder != "attention") {
      contenders.push_back({encoder, "none"});
      continue;
    }
    for (const std::string& position : positions) contenders.push_back({encoder, position});
  }
  return contenders;
}

std::string Join(const std::vector<std::string>& parts) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) text += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + parts[i];
  return text;
}

std::string Sentence(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

}  // namespace heed::lab
