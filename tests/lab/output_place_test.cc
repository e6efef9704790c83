#include "lab/report/file.h"

#include <sys/stat.h>

#include <fstream>

#include <gtest/gtest.h>

#include "heed/error.h"
#include "tests/scratch_folder.h"

namespace heed::lab {
namespace {

std::string PlaceError(void (*require)(const std::filesystem::path&), const std::filesystem::path& path) {
  try {
    require(path);
  } catch (const FileError& error) {
    return error.what();
  }
  return {};
}

TEST(OutputPlaceTest, ATrialLeavesNothing) {
  const ScratchFolder scratch;
  EXPECT_EQ(PlaceError(&RequireWritableFolder, scratch.path()), "");
  EXPECT_EQ(PlaceError(&RequireWritableFolder, scratch.path() / "a" / "b"), "");
  EXPECT_EQ(PlaceError(&RequireWritableFolder, scratch.path() / "a" / "b" / ""), "");
  EXPECT_EQ(PlaceError(&RequireWritableFile, scratch.path() / "a" / "page.html"), "");
  EXPECT_TRUE(scratch.Names().empty());
  std::ofstream(scratch.path() / "page.html") << "old";
  EXPECT_EQ(PlaceError(&RequireWritableFile, scratch.path() / "page.html"), "");
  EXPECT_EQ(scratch.Names(), std::set<std::string>{"page.html"});
}

TEST(OutputPlaceTest, PlacesThatTakeNoFilesAreNamed) {
  const ScratchFolder scratch;
  std::ofstream(scratch.path() / "file") << "in the way";
  for (const std::filesystem::path& path : {scratch.path() / "file", scratch.path() / "file" / "below"}) {
    EXPECT_NE(PlaceError(&RequireWritableFolder, path).find(path.string()), std::string::npos) << path;
  }
  // Where not even root makes a file.
  EXPECT_NE(PlaceError(&RequireWritableFolder, "/proc"), "");
  EXPECT_NE(PlaceError(&RequireWritableFolder, "/proc/heed"), "");
  std::filesystem::create_directory(scratch.path() / "folder");
  ASSERT_EQ(mkfifo((scratch.path() / "fifo").c_str(), 0600), 0);
  for (const std::filesystem::path& path :
       {scratch.path() / "folder", scratch.path() / "fifo", std::filesystem::path("/dev/null")}) {
    EXPECT_NE(PlaceError(&RequireWritableFile, path).find("no regular file"), std::string::npos) << path;
  }
  EXPECT_EQ(scratch.Names(), (std::set<std::string>{"fifo", "file", "folder"}));
}

}  // namespace
}  // namespace heed::lab
