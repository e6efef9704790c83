// The arrays of a kept model's model.safetensors.
#ifndef HEED_INFERENCE_SRC_KEPT_ARRAYS_H_
#define HEED_INFERENCE_SRC_KEPT_ARRAYS_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
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
  // Those of the file at `path`, read as they are needed.
  explicit KeptArrays(const std::string& path) : path_(path), stored_(OpenTensors(path)) {}
  explicit KeptArrays(std::map<std::string, KeptArray> arrays) : path_("model.safetensors"), arrays_(std::move(arrays)) {}

  int64_t Rows(const char* name) const {
    const std::vector<int64_t>& shape = Find(name).shape;
    return shape.empty() ? 0 : shape.front();
  }
  // T: double, int64_t or int32_t. Finite numbers of this type and shape. Throws FileError.
  template <class T>
  std::vector<T> Read(const char* name, const std::vector<int64_t>& shape) const {
    const Found found = Find(name);
    constexpr ElementType kType = std::is_same_v<T, double>    ? ElementType::kFloat64
                                  : std::is_same_v<T, int64_t> ? ElementType::kInt64
                                                               : ElementType::kInt32;
    if (found.type != kType || found.shape != shape) Refuse(name);
    std::size_t count = 1;
    for (const int64_t extent : shape) count *= static_cast<std::size_t>(extent);
    if (found.bytes != count * sizeof(T)) Refuse(name);
    std::vector<T> numbers(count);
    if (found.stored) {
      found.stored->file->Read(*found.stored->entry, numbers.data());
    } else {
      std::ranges::copy(found.kept->bytes, reinterpret_cast<char*>(numbers.data()));
    }
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
  // An array in the file, or one that was given.
  struct Found {
    std::optional<ElementType> type;
    const std::vector<int64_t>& shape;
    std::size_t bytes;
    const StoredTensor* stored = nullptr;
    const KeptArray* kept = nullptr;
  };
  Found Find(const char* name) const {
    if (const auto stored = stored_.find(name); stored != stored_.end()) {
      const SafetensorsEntry& entry = *stored->second.entry;
      return {entry.type->element, entry.shape, static_cast<std::size_t>(entry.end - entry.begin), &stored->second};
    }
    const auto kept = arrays_.find(name);
    if (kept == arrays_.end()) Refuse(name);
    return {kept->second.type, kept->second.shape, kept->second.bytes.size(), nullptr, &kept->second};
  }

  std::string path_;
  std::map<std::string, StoredTensor> stored_;
  std::map<std::string, KeptArray> arrays_;
};

}  // namespace heed

#endif  // HEED_INFERENCE_SRC_KEPT_ARRAYS_H_
