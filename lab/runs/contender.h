// What is compared: an encoder, with a positional encoding where it attends.
#ifndef HEED_LAB_RUNS_CONTENDER_H_
#define HEED_LAB_RUNS_CONTENDER_H_

#include <string>
#include <vector>

namespace heed::lab {

struct Contender {
  std::string encoder, position;  // position is "none" for all encoders but attention

  bool attends() const { return encoder == "attention"; }
  std::string Id() const;      // "attention-alibi", "gru": for files and JSON
  std::string Label() const;   // "attention, ALiBi", "GRU": for figures and tables
  std::string Phrase() const;  // "attention with ALiBi", "the GRU": within a sentence
  std::string Family() const;  // "attention", "recurrence", "convolution"; a mixture of them is a family of its own
};

// Those of EncoderNames() that are compared where nobody chooses: one of each kind and the usual cells.
std::vector<std::string> DefaultEncoders();

// Attention with every position, every other encoder once, in order.
std::vector<Contender> Contenders(const std::vector<std::string>& encoders, const std::vector<std::string>& positions);

// "none", "sinusoidal", "learned", "rotary", "ALiBi", "relative bias", "T5's bias", "Shaw",
// "KERPLE", "KERPLE's power", "Sandwich", "FIRE", "temperature", "sinusoidal bias", "Transformer-XL", "xPos",
// "DeBERTa".
std::string SchemeLabel(const std::string& position);

// "a", "a and b", "a, b and c".
std::string Join(const std::vector<std::string>& parts);
// The text with a capital at its start.
std::string Sentence(std::string text);

}  // namespace heed::lab

#endif  // HEED_LAB_RUNS_CONTENDER_H_
