// Tests with a folder of their own.
#ifndef HEED_TESTS_FOLDER_FIXTURE_H_
#define HEED_TESTS_FOLDER_FIXTURE_H_

#include <filesystem>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "tests/scratch_folder.h"

namespace heed {

class ScratchFolderTest : public testing::Test {
 protected:
  const std::filesystem::path& folder() const { return folder_.path(); }
  std::string At(const std::string& name) const { return folder().string() + "/" + name; }
  std::set<std::string> Names() const { return folder_.Names(); }

 private:
  ScratchFolder folder_;
};

}  // namespace heed

#endif  // HEED_TESTS_FOLDER_FIXTURE_H_
