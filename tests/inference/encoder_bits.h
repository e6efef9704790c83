// Encoders with random weights over rows of different lengths, for tests of their bits.
#ifndef HEED_TESTS_INFERENCE_ENCODER_BITS_H_
#define HEED_TESTS_INFERENCE_ENCODER_BITS_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "heed/model_workspace.h"
#include "inference/src/encoders/sequence_encoder.h"

namespace heed {

// Whole multiples of 2^-10 between -1 and 1, which no library rounds.
inline float Fraction(std::mt19937_64& random) {
  return static_cast<float>(static_cast<int64_t>(random() % 2049) - 1024) * 0x1p-10f;
}

struct BitsEncoder {
  std::string name;
  EncoderOptions options;
  std::unique_ptr<SequenceEncoder> encoder;
};

inline BitsEncoder MakeBitsEncoder(const std::string& kind, const std::string& position, bool causal, int64_t heads = 4) {
  BitsEncoder made{kind + (position == "none" ? "" : " " + position) + (causal ? " causal" : ""), {}, nullptr};
  EncoderOptions& options = made.options;
  options.encoder = kind, options.position = position, options.causal = causal;
  options.layers = 2, options.heads = heads, options.width = 16, options.ffn_width = 24, options.max_len = 256;
  options.max_distance = 17;
  made.encoder = MakeEncoder(options);
  std::mt19937_64 random(17);
  for (const Parameter& parameter : made.encoder->parameters().list) {
    int64_t count = 1;
    for (const int64_t extent : parameter.shape) count *= extent;
    std::vector<float> numbers(static_cast<std::size_t>(count));
    for (float& number : numbers) number = 0.5f * Fraction(random);
    parameter.assign(numbers);
  }
  return made;
}

// Positions that are for causal attention alone.
inline bool NeedsOrder(const std::string& position) { return position == "xpos"; }

// Every encoder both ways, attention with each of its positions.
inline std::vector<BitsEncoder> AllBitsEncoders() {
  std::vector<BitsEncoder> all;
  for (const bool causal : {false, true}) {
    for (const char* kind : {"attention", "convolution", "dilated", "rnn", "gru", "lstm", "gru-attention", "decomposable",
                             "self-attentive", "lstmn", "intra-decoder", "linear", "retention", "mamba2", "gated-delta"})
      all.push_back(MakeBitsEncoder(kind, "none", causal, std::string(kind) == "mamba2" ? 2 : 4));
    for (const char* position :
         {"sinusoidal", "learned", "rotary", "alibi", "relative", "t5", "shaw", "kerple", "kerple_power", "sandwich", "fire",
          "temperature", "sinusoidal_bias", "transformer_xl", "xpos", "deberta", "cope"})
      if (causal || !NeedsOrder(position)) all.push_back(MakeBitsEncoder("attention", position, causal));
    all.push_back(MakeBitsEncoder("self-attentive", "none", causal, 1));
  }
  return all;
}

// Rows of up to `steps` steps of a width: the numbers, and how many count.
struct BitsBatch {
  std::vector<int64_t> lengths;
  int64_t steps, width;
  std::vector<float> numbers;

  BitsBatch(std::vector<int64_t> row_lengths, int64_t columns) : lengths(std::move(row_lengths)), steps(0), width(columns) {
    steps = *std::max_element(lengths.begin(), lengths.end());
    numbers.resize(lengths.size() * static_cast<std::size_t>(steps * width));
    std::mt19937_64 random(5);
    for (float& number : numbers) number = 2 * Fraction(random);
  }
  int64_t rows() const { return static_cast<int64_t>(lengths.size()); }

  // The outputs of all rows.
  std::vector<float> Encoded(const SequenceEncoder& encoder, Executor& executor) const {
    std::vector<float> out = numbers;
    ModelWorkspace workspace;
    encoder.Forward(View<float, 3>::Contiguous(out.data(), {rows(), steps, width}),
                    EncoderCall{.workspace = workspace, .executor = executor, .lengths = lengths.data()});
    return out;
  }
  // Those of the steps of one row that count, in a batch and computed alone.
  std::vector<float> Row(const std::vector<float>& all, int64_t row) const {
    const auto first = all.begin() + row * steps * width;
    return {first, first + lengths[static_cast<std::size_t>(row)] * width};
  }
  std::vector<float> Alone(const SequenceEncoder& encoder, int64_t row, Executor& executor) const {
    std::vector<float> out = Row(numbers, row);
    ModelWorkspace workspace;
    encoder.Forward(View<float, 3>::Contiguous(out.data(), {1, lengths[static_cast<std::size_t>(row)], width}),
                    EncoderCall{.workspace = workspace, .executor = executor});
    return out;
  }
};

}  // namespace heed

#endif  // HEED_TESTS_INFERENCE_ENCODER_BITS_H_
