#include "lab/runs/contender.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace heed::lab {
namespace {

// Encoders that are not called what their options are, or stand under another family than their own name.
struct NamedEncoder {
  const char *name, *label, *phrase, *family;
};
constexpr NamedEncoder kNamedEncoders[] = {
    {"dilated", "dilated convolution", "the dilated convolution", "convolution"},
    {"rnn", "RNN", "the RNN", "recurrence"},
    {"gru", "GRU", "the GRU", "recurrence"},
    {"lstm", "LSTM", "the LSTM", "recurrence"},
    {"gru-attention", "GRU with attention", "the GRU with attention", "recurrence with attention"},
    {"decomposable", "decomposable attention", "decomposable attention", "decomposable attention"},
    {"self-attentive", "self-attentive embedding", "the self-attentive embedding", "recurrence with attention"},
    {"lstmn", "LSTMN", "the LSTMN", "recurrence with attention"},
    {"intra-decoder", "intra-decoder", "the intra-decoder", "recurrence with attention"},
    {"linear", "linear attention", "linear attention", "linear time"},
    {"retention", "retention", "retention", "linear time"},
    {"mamba2", "Mamba-2", "Mamba-2", "linear time"},
    {"gated-delta", "gated DeltaNet", "gated DeltaNet", "linear time"},
};

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

// The row of a table with this name, or null.
template <class Row, std::size_t kRows>
const Row* Named(const Row (&rows)[kRows], const std::string& name) {
  const auto* found = std::ranges::find(rows, name, &Row::name);
  return found == std::end(rows) ? nullptr : found;
}

SizedContender Sized(Contender contender, int64_t unit, int64_t target, const CountParameters& count) {
  const int64_t least = count(contender, unit);
  const int64_t slope = count(contender, 2 * unit) - least;
  const int64_t more = std::llround(static_cast<double>(target - least) / static_cast<double>(slope));
  const int64_t ffn_width = unit * std::max<int64_t>(1, 1 + more);
  const int64_t parameters = count(contender, ffn_width);
  return {std::move(contender), ffn_width, parameters};
}

}  // namespace

std::vector<std::string> DefaultEncoders() { return {"attention", "convolution", "dilated", "rnn", "gru", "lstm"}; }

std::string SchemeLabel(const std::string& position) {
  const NamedScheme* named = Named(kNamedSchemes, position);
  return named != nullptr ? named->label : position;
}

std::string Contender::Id() const { return attends() ? encoder + "-" + position : encoder; }

std::string Contender::Label() const {
  if (attends()) return position == "none" ? "attention, no positions" : "attention, " + SchemeLabel(position);
  const NamedEncoder* named = Named(kNamedEncoders, encoder);
  return named != nullptr ? named->label : encoder;
}

std::string Contender::Phrase() const {
  if (const NamedEncoder* named = Named(kNamedEncoders, encoder)) return named->phrase;
  if (!attends()) return "the " + encoder;
  if (position == "none") return "attention without positions";
  if (const NamedScheme* named = Named(kNamedSchemes, position)) return std::string("attention with ") + named->phrase;
  return "attention with " + position + " positions";
}

std::string Contender::Family() const {
  const NamedEncoder* named = Named(kNamedEncoders, encoder);
  return named != nullptr ? named->family : encoder;
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

std::vector<SizedContender> EqualContenders(const std::vector<std::string>& encoders, const std::vector<std::string>& positions,
                                            int64_t width, int64_t reference, const CountParameters& count) {
  const int64_t target = count({"attention", "none"}, reference);
  const int64_t unit = std::max<int64_t>(1, width / 8);  // whole SIMD vectors at usual widths
  std::vector<SizedContender> sized;
  for (Contender& contender : Contenders(encoders, positions)) {
    sized.push_back(Sized(std::move(contender), unit, target, count));
  }
  return sized;
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
