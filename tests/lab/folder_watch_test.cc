#include "lab/training/run_folder.h"

#include <fstream>

#include <gtest/gtest.h>

#include "heed/error.h"
#include "tests/scratch_folder.h"

namespace heed::lab {
namespace {

class FolderWatchTest : public testing::Test {
 protected:
  FolderWatchTest() : path_(scratch_.path() / "run") { Make(); }

  void Make() const {
    std::filesystem::create_directory(path_);
    std::ofstream(path_ / "config.json") << "{}";
  }

  std::string ErrorOf(const FolderWatch& watch) const {
    try {
      watch.Check();
    } catch (const FileError& error) {
      return error.what();
    }
    return {};
  }

  const ScratchFolder scratch_;
  const std::filesystem::path path_;
};

TEST_F(FolderWatchTest, NoticesThatTheFolderIsGoneReplacedOrEmptied) {
  const FolderWatch watch(path_, "config.json");
  EXPECT_EQ(ErrorOf(watch), "");
  std::filesystem::remove(path_ / "config.json");
  EXPECT_NE(ErrorOf(watch).find((path_ / "config.json").string() + ": the file was removed"), std::string::npos);
  std::filesystem::remove_all(path_);
  EXPECT_NE(ErrorOf(watch).find(path_.string() + ": the folder was removed or replaced"), std::string::npos);
  Make();  // a file system may well give it the number that the old one had
  EXPECT_NE(ErrorOf(watch).find("replaced"), std::string::npos);
  EXPECT_THROW(FolderWatch(scratch_.path() / "none", "config.json"), FileError);
}

TEST_F(FolderWatchTest, AFolderMovedAwayAndBackIsTheSame) {
  const FolderWatch watch(path_, "config.json");
  std::filesystem::rename(path_, scratch_.path() / "aside");
  EXPECT_NE(ErrorOf(watch), "");
  std::filesystem::rename(scratch_.path() / "aside", path_);
  EXPECT_EQ(ErrorOf(watch), "");
}

}  // namespace
}  // namespace heed::lab
