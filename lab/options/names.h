// The names that options choose among.
#ifndef HEED_LAB_OPTIONS_NAMES_H_
#define HEED_LAB_OPTIONS_NAMES_H_

#include <string>
#include <vector>

namespace heed::lab {

// The encoders and positional schemes of heed/nn.
std::vector<std::string> EncoderNames();
std::vector<std::string> PositionSchemeNames();

}  // namespace heed::lab

#endif  // HEED_LAB_OPTIONS_NAMES_H_
