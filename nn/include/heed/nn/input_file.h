// heed/input_file.h under the names that it has in nn.
#ifndef HEED_NN_INPUT_FILE_H_
#define HEED_NN_INPUT_FILE_H_

#include "heed/input_file.h"

namespace heed::nn {

using heed::InputFile;
using heed::KindOfFile;
using heed::ReadFile;
using heed::ReadStandardInput;

}  // namespace heed::nn

#endif  // HEED_NN_INPUT_FILE_H_
