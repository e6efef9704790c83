#include "lab/runs/contender.h"

#include <algorithm>

namespace heed::lab {
namespace {

bool Recurs(const std::string& encoder) { return encoder == "rnn" || encoder == "gru" || encoder == "lstm"; }

}  // namespace

std::vector<std::string> DefaultEncoders() { return {"attention", "convolution", "dilated", "rnn", "gru", "lstm"}; }

std::string SchemeLabel(const std::string& position) {
  if (position == "alibi") return "ALiBi";
  if (position == "t5") return "T5's bias";
  if (position == "shaw") return "Shaw";
  return position == "relative" ? "relative bias" : position;
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
  if (position == "alibi") return "attention with ALiBi";
  if (position == "relative") return "attention with a relative bias";
  if (position == "t5") return "attention with T5's bias";
  if (position == "shaw") return "attention with Shaw's relative positions";
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
