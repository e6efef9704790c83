// The laboratory reads regular files within limits and replaces regular files only.
#include "lab/report/file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "heed/error.h"
#include "lab/data/text.h"
#include "lab/series/data.h"
#include "lab/series/npy_file.h"
#include "lab/training/run_folder.h"
#include "tests/error_text.h"
#include "tests/scratch_folder.h"

namespace heed::lab {
namespace {

// Each would be waited for, or read until memory ends.
TEST(File, EveryReaderRefusesWhatIsNoRegularFile) {
  const ScratchFolder scratch;
  const std::filesystem::path fifo = scratch.path() / "fifo", folder = scratch.path() / "folder";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  std::filesystem::create_directory(folder);
  SeriesColumns columns;
  columns.target = "y";
  for (const std::filesystem::path& path : {fifo, folder, std::filesystem::path("/dev/zero")}) {
    for (const std::string& error :
         {WhatOf<FileError>([&] { ReadText(path.string()); }), WhatOf<FileError>([&] { NpyFile{path}; }),
          WhatOf<FileError>([&] { ReadSeriesCsv(path, columns); }), WhatOf<FileError>([&] { ReadFile(path); })}) {
      EXPECT_TRUE(Holds(error, path.string())) << error;
      EXPECT_TRUE(Holds(error, "a regular file is expected")) << error;
    }
  }
  const RunFolder run(scratch.path());
  for (const std::filesystem::path& path : {run.config(), run.metrics()}) std::filesystem::create_symlink("/dev/zero", path);
  EXPECT_TRUE(Holds(WhatOf<FileError>([&] { run.ReadConfig(); }), "config.json' is a device"));
  EXPECT_TRUE(Holds(WhatOf<FileError>([&] { run.ReadMetrics(1); }), "metrics.jsonl' is a device"));
}

// Holes take no room on the disk.
TEST(File, LimitsHoldBeforeMemoryIsTaken) {
  const ScratchFolder scratch;
  const RunFolder run(scratch.path());
  const std::filesystem::path text = scratch.path() / "text";
  for (const std::filesystem::path& path : {run.config(), text}) std::ofstream(path).close();
  std::filesystem::resize_file(run.config(), kMostSettingsBytes + 1);
  std::filesystem::resize_file(text, static_cast<std::uintmax_t>(MostDataBytes()) + 1);
  EXPECT_TRUE(Holds(WhatOf<FileError>([&] { run.ReadConfig(); }), "at most 67108864 are read"));
  EXPECT_TRUE(Holds(WhatOf<FileError>([&] { ReadText(text.string()); }), "are read"));
}

TEST(File, SettingsThatNestWithoutEndAreRefused) {
  const ScratchFolder scratch;
  const RunFolder run(scratch.path());
  WriteFile(run.config(), std::string(1 << 20, '['));
  EXPECT_TRUE(Holds(WhatOf<FileError>([&] { run.ReadConfig(); }), "more than 64 levels are nested"));
}

TEST(File, WritingFollowsLinksKeepsPermissionsAndSparesOthers) {
  const ScratchFolder scratch;
  const std::filesystem::path file = scratch.path() / "below" / "file", link = scratch.path() / "link",
                              fifo = scratch.path() / "fifo";
  WriteFile(file, "old");
  std::filesystem::permissions(file, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  std::filesystem::create_symlink("below/file", link);
  WriteFile(link, "new");
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(ReadFile(file), "new");
  EXPECT_EQ(std::filesystem::status(file).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_TRUE(Holds(WhatOf<FileError>([&] { WriteFile(fifo, "x"); }), "it is a FIFO, not a regular file"));
  EXPECT_TRUE(std::filesystem::is_fifo(fifo));
  EXPECT_EQ(scratch.Names(), (std::set<std::string>{"below", "fifo", "link"}));
}

}  // namespace
}  // namespace heed::lab
