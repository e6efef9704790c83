// A folder for the files of one test, gone when the test ends.
#ifndef HEED_TESTS_NN_SCRATCH_FOLDER_H_
#define HEED_TESTS_NN_SCRATCH_FOLDER_H_

#include <stdlib.h>

#include <filesystem>
#include <set>
#include <string>

#include <gtest/gtest.h>

namespace heed::nn {

class ScratchFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "heed-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr) << name;
    folder_ = name;
  }
  void TearDown() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  const std::filesystem::path& folder() const { return folder_; }
  std::string At(const std::string& name) const { return folder_.string() + "/" + name; }
  std::set<std::string> Names() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) names.insert(entry.path().filename().string());
    return names;
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace heed::nn

#endif  // HEED_TESTS_NN_SCRATCH_FOLDER_H_
