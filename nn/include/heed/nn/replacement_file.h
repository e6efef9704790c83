// heed/replacement_file.h under the name that it has in nn.
#ifndef HEED_NN_REPLACEMENT_FILE_H_
#define HEED_NN_REPLACEMENT_FILE_H_

#include "heed/replacement_file.h"

namespace heed::nn {

using heed::ReplacementFile;

}  // namespace heed::nn

#endif  // HEED_NN_REPLACEMENT_FILE_H_
