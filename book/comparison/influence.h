// How strongly an encoder's output at the last position depends on inputs at a distance: gradients of real encoders.
#ifndef HEED_BOOK_COMPARISON_INFLUENCE_H_
#define HEED_BOOK_COMPARISON_INFLUENCE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace heed::lab {

struct InfluenceOptions {
  int64_t length = 256;
  int64_t width = 64;
  int64_t kernel = 3;
  int64_t heads = 1;
  int64_t layers = 2;
  uint64_t seed = 0;
};

struct InfluenceCurve {
  std::string encoder;  // as nn::MakeEncoder names it
  // By distance: log10 of the Frobenius norm of dy_last / dx_(last - distance). -inf where the norm is 0, as beyond a receptive
  // field, or below 1e-308, the smallest normal double.
  std::vector<double> log10;
};

// Of a causal encoder without positions and feed-forward sublayers as it is initialised, at normal inputs, by autograd in
// double. The norm runs over at most 16 output channels, scaled to all of them: at initialisation they are alike.
InfluenceCurve MeasureInfluence(const std::string& encoder, const InfluenceOptions& options);
// Of every encoder, in the order of nn::EncoderNames.
std::vector<InfluenceCurve> MeasureInfluences(const InfluenceOptions& options);

}  // namespace heed::lab

#endif  // HEED_BOOK_COMPARISON_INFLUENCE_H_
