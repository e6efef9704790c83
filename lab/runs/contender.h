// What is compared: an encoder, with a positional encoding where it attends.
#ifndef HEED_LAB_RUNS_CONTENDER_H_
#define HEED_LAB_RUNS_CONTENDER_H_

#include <cstdint>
#include <functional>
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

struct SizedContender : Contender {
  int64_t ffn_width = 0;   // of every layer's feed-forward sublayer: what makes the parameters equal
  int64_t parameters = 0;  // counted on the built model
};

// Builds a model with this width of its feed-forward sublayers and counts its parameters, which are linear in the width.
using CountParameters = std::function<int64_t(const Contender& contender, int64_t ffn_width)>;

// Attention with every position, every other encoder once, in order. Each gets the feed-forward width, a multiple of an eighth
// of `width`, with which it comes nearest to the parameters of attention without positions and a feed-forward width of
// `reference`.
std::vector<SizedContender> EqualContenders(const std::vector<std::string>& encoders, const std::vector<std::string>& positions,
                                            int64_t width, int64_t reference, const CountParameters& count);

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
