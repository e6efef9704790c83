// Reads and writes safetensors files. A file from outside is hostile until checked: everything is validated before memory is
// allocated for it.
#ifndef HEED_NN_SAFETENSORS_H_
#define HEED_NN_SAFETENSORS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace heed::nn {

struct SafetensorsLimits {
  int64_t header_bytes = int64_t{16} << 20;  // at most 100,000,000
  int64_t tensors = 65536;                   // at most 1,000,000
  int64_t rank = 8;
};

struct Safetensors {
  std::map<std::string, at::Tensor> tensors;    // contiguous, owning, CPU
  std::map<std::string, std::string> metadata;  // the file's __metadata__
};

// Throws FileError that names the file, the byte offset and what is wrong.
Safetensors ReadSafetensors(const std::string& path, const SafetensorsLimits& limits = {});

// Writes beside `path` and renames, so that the old file survives any failure. Throws FileError.
void WriteSafetensors(const std::string& path, const std::map<std::string, at::Tensor>& tensors,
                      const std::map<std::string, std::string>& metadata = {});

}  // namespace heed::nn

#endif  // HEED_NN_SAFETENSORS_H_
