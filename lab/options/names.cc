#include "lab/options/names.h"

#include "heed/nn/encoders.h"
#include "heed/nn/positions.h"

namespace heed::lab {

std::vector<std::string> EncoderNames() { return nn::EncoderNames(); }
std::vector<std::string> PositionSchemeNames() { return nn::PositionSchemeNames(); }

}  // namespace heed::lab
