// Reads and writes safetensors files as tensors; heed/safetensors.h does the reading.
#ifndef HEED_NN_SAFETENSORS_H_
#define HEED_NN_SAFETENSORS_H_

#include <map>
#include <string>

#include <ATen/core/Tensor.h>

#include "heed/safetensors.h"

namespace heed::nn {

using heed::SafetensorsLimits;

struct Safetensors {
  std::map<std::string, at::Tensor> tensors;    // contiguous, owning, CPU
  std::map<std::string, std::string> metadata;  // the file's __metadata__
  // Tensors of types that the format has and heed does not read, by name: "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ",
  // "F8_E5M2FNUZ", "F6_E2M3", "F6_E3M2", "F4", "C64", "U16", "U32", "U64". Their places in the file are checked like all
  // others.
  std::map<std::string, std::string> unread;
};

// Reads a regular file that is no larger than this machine's memory. Throws FileError that names the file, the byte offset and
// what is wrong.
Safetensors ReadSafetensors(const std::string& path, const SafetensorsLimits& limits = {});

// Writes as heed/nn/replacement_file.h does, so that the old file survives any failure. Throws InvalidArgument for a tensor
// that the format or heed does not store (sparse, on the meta device, complex, ...), FileError where the file cannot be
// written.
void WriteSafetensors(const std::string& path, const std::map<std::string, at::Tensor>& tensors,
                      const std::map<std::string, std::string>& metadata = {});

}  // namespace heed::nn

#endif  // HEED_NN_SAFETENSORS_H_
