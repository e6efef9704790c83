// Reads and writes safetensors files as tensors, with the reader of heed/safetensors.h.
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
  // Types, by name, of tensors that heed does not read: "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ",
  // "F6_E2M3", "F6_E3M2", "F4", "C64", "U16", "U32", "U64". The reader checks their places in the file too.
  std::map<std::string, std::string> unread;
};

// Reads a regular file no larger than this machine's memory. Throws FileError, naming the file, the byte offset and the fault.
Safetensors ReadSafetensors(const std::string& path, const SafetensorsLimits& limits = {});

// Replaces the file by heed/replacement_file.h, so the old file survives any failure. Throws InvalidArgument for a tensor that
// it cannot store (sparse, on the meta device, complex, ...), FileError where it cannot write the file.
void WriteSafetensors(const std::string& path, const std::map<std::string, at::Tensor>& tensors,
                      const std::map<std::string, std::string>& metadata = {});

}  // namespace heed::nn

#endif  // HEED_NN_SAFETENSORS_H_
