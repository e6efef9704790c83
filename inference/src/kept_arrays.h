// The arrays of a kept model's model.safetensors.
#ifndef HEED_INFERENCE_SRC_KEPT_ARRAYS_H_
#define HEED_INFERENCE_SRC_KEPT_ARRAYS_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "heed/error.h"
#include "heed/safetensors.h"
#include "heed/series_model.h"

namespace heed {

class KeptArrays {
 public:
  // Those of the file at `path`.
  explicit KeptArrays(const std::string& path) : path_(path) {
    for (const auto& [name, stored] : OpenTensors(path)) {
      const SafetensorsEntry& entry = *stored.entry;
      if (!entry.type->element) continue;
      KeptArray& array = arrays_[name];
      array = {*entry.type->element, entry.shape, std::string(static_cast<std::size_t>(entry.end - entry.begin), '\0')};
      stored.file->Read(entry, array.bytes.data());
    }
  }
  explicit KeptArrays(std::map<std::string, KeptArray> arrays) : path_("model.safetensors"), arrays_(std::move(arrays)) {}

  int64_t Rows(const char* name) const {
    const std::vector<int64_t>& shape = Find(name).shape;
    return shape.empty() ? 0 : shape.front();
  }
  // T: double, int64_t or int32_t. Finite numbers of this type and shape. Throws FileError.
  template <class T>
  std::vector<T> Read(const char* name, const std::vector<int64_t>& shape) const {
    const KeptArray& array = Find(name);
    constexpr ElementType kType = std::is_same_v<T, double>    ? ElementType::kFloat64
                                  : std::is_same_v<T, int64_t> ? ElementType::kInt64
                                                               : ElementType::kInt32;
    if (array.type != kType || array.shape != shape) Refuse(name);
    std::vector<T> numbers(array.bytes.size() / sizeof(T));
    if (!numbers.empty()) std::memcpy(numbers.data(), array.bytes.data(), array.bytes.size());
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
  const KeptArray& Find(const char* name) const {
    const auto found = arrays_.find(name);
    if (found == arrays_.end()) Refuse(name);
    return found->second;
  }

  std::string path_;
  std::map<std::string, KeptArray> arrays_;
};

}  // namespace heed

#endif  // HEED_INFERENCE_SRC_KEPT_ARRAYS_H_
