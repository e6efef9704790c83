// Writes safetensors files for tests, valid or not.
#ifndef HEED_TESTS_INFERENCE_STORED_TENSORS_H_
#define HEED_TESTS_INFERENCE_STORED_TENSORS_H_

#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace heed {

struct Stored {
  std::string dtype;
  std::vector<int64_t> shape;
  std::string bytes;
};

template <class T>
std::string Bytes(const std::vector<T>& numbers) {
  std::string bytes(numbers.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

inline void WriteTensors(const std::string& path, const std::map<std::string, Stored>& tensors) {
  nlohmann::json header = nlohmann::json::object();
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    const std::size_t begin = data.size();
    data += tensor.bytes;
    header[name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
  }
  const std::string text = header.dump();
  const uint64_t length = text.size();
  std::ofstream(path, std::ios::binary) << Bytes(std::vector<uint64_t>{length}) << text << data;
}

}  // namespace heed

#endif  // HEED_TESTS_INFERENCE_STORED_TENSORS_H_
