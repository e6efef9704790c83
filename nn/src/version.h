// heed's version.
#ifndef HEED_NN_SRC_VERSION_H_
#define HEED_NN_SRC_VERSION_H_

#include <string>

namespace heed::nn {

std::string Version();

}  // namespace heed::nn

#endif  // HEED_NN_SRC_VERSION_H_
