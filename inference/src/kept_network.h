// What the network of a kept model has in common: its encoder fits the weights beside it, and these are numbers.
#ifndef HEED_INFERENCE_SRC_KEPT_NETWORK_H_
#define HEED_INFERENCE_SRC_KEPT_NETWORK_H_

#include <cstdint>
#include <string>

#include "encoders/sequence_encoder.h"
#include "heed/weights.h"

namespace heed {

// Whether the file at `path` holds as many weights as the encoder has at least, with so many columns of its width in embedding
// and head: any encoder has a square matrix of the width and the feed-forward weights in each layer, and a learned table a row
// for each step. Asked before the encoder is made, so that a few bytes of settings claim no memory. Throws FileError.
bool HoldsWeightsOf(const EncoderOptions& encoder, int64_t ends, const std::string& path);

// As LoadWeights. Throws FileError for numbers that are not finite, too.
void LoadFiniteWeights(Parameters parameters, const std::string& path);

}  // namespace heed

#endif  // HEED_INFERENCE_SRC_KEPT_NETWORK_H_
