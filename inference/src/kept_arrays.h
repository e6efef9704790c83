// The arrays of a kept model's model.safetensors, read as they are needed.
#ifndef HEED_INFERENCE_SRC_KEPT_ARRAYS_H_
#define HEED_INFERENCE_SRC_KEPT_ARRAYS_H_

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "heed/error.h"
#include "heed/safetensors.h"

namespace heed {

class KeptArrays {
 public:
  explicit KeptArrays(std::string path) : path_(std::move(path)), stored_(OpenTensors(path_)) {}

  int64_t Rows(const char* name) const {
    const std::vector<int64_t>& shape = Find(name).entry->shape;
    return shape.empty() ? 0 : shape.front();
  }
  // T: double, int64_t or int32_t. Finite numbers of this type and shape. Throws FileError.
  template <class T>
  std::vector<T> Read(const char* name, const std::vector<int64_t>& shape) const {
    const StoredTensor& stored = Find(name);
    const SafetensorsEntry& entry = *stored.entry;
    constexpr ElementType kType = std::is_same_v<T, double>    ? ElementType::kFloat64
                                  : std::is_same_v<T, int64_t> ? ElementType::kInt64
                                                               : ElementType::kInt32;
    if (entry.type->element != kType || entry.shape != shape) Refuse(name);
    std::vector<T> numbers(static_cast<std::size_t>(entry.end - entry.begin) / sizeof(T));
    stored.file->Read(entry, numbers.data());
    if constexpr (std::is_same_v<T, double>) {
      for (const T number : numbers) {
        if (!std::isfinite(number)) Refuse(name);
      }
    }
    return numbers;
  }
  [[noreturn]] void Refuse(const char* name) const {
    throw FileError(path_ + ": '" + name + "' does not fit this kind of method");
  }

 private:
  const StoredTensor& Find(const char* name) const {
    const auto found = stored_.find(name);
    if (found == stored_.end()) Refuse(name);
    return found->second;
  }

  std::string path_;
  std::map<std::string, StoredTensor> stored_;
};

}  // namespace heed

#endif  // HEED_INFERENCE_SRC_KEPT_ARRAYS_H_
