// The index of a checkpoint that is cut into several safetensors files (model.safetensors.index.json).
#ifndef HEED_WEIGHTS_SRC_SAFETENSORS_INDEX_H_
#define HEED_WEIGHTS_SRC_SAFETENSORS_INDEX_H_

#include <cstdint>
#include <map>
#include <string>

#include "heed/safetensors.h"

namespace heed {

// Each file is open while tensors are read.
inline constexpr int64_t kMaxShards = 512;

bool IsSafetensorsIndex(const std::string& path);

// The file of each tensor by the tensor's name. Files are names beside the index: without '/', other than "..", ending with
// ".safetensors". Throws FileError that names the index, the byte and what is wrong with it.
std::map<std::string, std::string> ReadSafetensorsIndex(const std::string& path, const SafetensorsLimits& limits);

}  // namespace heed

#endif  // HEED_WEIGHTS_SRC_SAFETENSORS_INDEX_H_
