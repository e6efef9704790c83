// Model folders that something happened to.
#ifndef HEED_TESTS_INFERENCE_DAMAGED_FOLDERS_H_
#define HEED_TESTS_INFERENCE_DAMAGED_FOLDERS_H_

#include <cstdint>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "heed/error.h"

namespace heed {

// Whatever happens to a byte of config.json or model.safetensors in the folder, `use` opens it and answers, or throws an Error.
// Returns how many it refused.
inline int64_t RefusedOfDamaged(const std::string& folder, int64_t folders, std::mt19937& generator,
                                const std::function<void()>& use) {
  const std::string paths[] = {folder + "/config.json", folder + "/model.safetensors"};
  std::string whole[2];
  for (int i = 0; i < 2; ++i) {
    std::ifstream file(paths[i], std::ios::binary);
    whole[i].assign(std::istreambuf_iterator<char>(file), {});
  }
  int64_t refused = 0;
  for (int64_t i = 0; i < folders; ++i) {
    std::string damaged = whole[i % 2];
    const std::size_t place = generator() % damaged.size();
    if (i % 3 == 0) damaged.resize(place);
    if (i % 3 == 1) damaged[place] = static_cast<char>(generator());
    if (i % 3 == 2) damaged.insert(place, i % 4 == 2 ? "9999999" : "-1");
    for (int64_t f = 0; f < 2; ++f) std::ofstream(paths[f], std::ios::binary) << (i % 2 == f ? damaged : whole[f]);
    try {
      use();
    } catch (const Error& error) {
      ++refused;
      EXPECT_FALSE(std::string(error.what()).empty());
    }
  }
  return refused;
}

}  // namespace heed

#endif  // HEED_TESTS_INFERENCE_DAMAGED_FOLDERS_H_
