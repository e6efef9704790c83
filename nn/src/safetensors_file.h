// An open safetensors file: its header is checked, its tensors are read one by one.
#ifndef HEED_NN_SRC_SAFETENSORS_FILE_H_
#define HEED_NN_SRC_SAFETENSORS_FILE_H_

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "heed/nn/input_file.h"
#include "heed/nn/safetensors.h"
#include "safetensors_header.h"

namespace heed::nn {

class SafetensorsFile {
 public:
  // Throws FileError unless the file, of at most `most_bytes`, has a valid header within `limits`.
  SafetensorsFile(const std::string& path, const SafetensorsLimits& limits,
                  int64_t most_bytes = std::numeric_limits<int64_t>::max());

  const std::string& path() const { return file_.path(); }
  const std::vector<SafetensorsEntry>& entries() const { return header_.entries; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }

  // The tensor of an entry whose type heed reads: contiguous, owning, on the CPU. Throws FileError.
  at::Tensor Read(const SafetensorsEntry& entry) const;

 private:
  InputFile file_;
  int64_t data_offset_ = 0;
  SafetensorsHeader header_;
};

}  // namespace heed::nn

#endif  // HEED_NN_SRC_SAFETENSORS_FILE_H_
