// Only regular files within a limit are read; whatever could be waited for or read without end is refused at once.
#include "heed/input_file.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "heed/error.h"
#include "tests/folder_fixture.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

class InputFileTest : public ScratchFolderTest {
 protected:
  static void ExpectRefused(const std::string& path, const std::string& part, int64_t most_bytes = 1 << 20) {
    try {
      ReadFile(path, most_bytes);
      ADD_FAILURE() << path;
    } catch (const FileError& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
      // A message ends at a NUL.
      EXPECT_NE(std::string(error.what()).find(path.substr(0, path.find('\0'))), std::string::npos) << error.what();
    }
  }
};

TEST_F(InputFileTest, AFileIsReadWholeUpToTheLimit) {
  const std::string bytes("a\0b\n", 4);
  std::ofstream(At("file"), std::ios::binary) << bytes;
  std::ofstream(At("empty")).close();
  fs::create_symlink("file", At("link"));
  EXPECT_EQ(ReadFile(At("file"), 4), bytes);
  EXPECT_EQ(ReadFile(At("link"), 4), bytes);
  EXPECT_EQ(ReadFile(At("empty"), 0), "");
  ExpectRefused(At("file"), "holds 4 bytes; at most 3 are read", 3);
}

TEST_F(InputFileTest, WhatIsNoRegularFileIsRefusedAtOnce) {
  ASSERT_EQ(::mkfifo(At("fifo").c_str(), 0600), 0);
  fs::create_symlink("fifo", At("link"));
  ExpectRefused(At("fifo"), "is a FIFO; a regular file is expected");
  ExpectRefused(At("link"), "is a FIFO; a regular file is expected");
  ExpectRefused(folder().string(), "is a directory; a regular file is expected");
  ExpectRefused("/dev/zero", "is a device; a regular file is expected");
  ExpectRefused("/dev/null", "is a device; a regular file is expected");
  ExpectRefused(At("absent"), "cannot be opened: No such file");
  ExpectRefused(At("fifo/below"), "cannot be opened: Not a directory");
  ExpectRefused(std::string("/dev/null\0.txt", 14), "NUL");
}

// A hole takes no room on the disk; read, it would take all memory.
TEST_F(InputFileTest, AHugeHoleIsRefusedBeforeMemoryIsTaken) {
  std::ofstream(At("hole")).close();
  ASSERT_EQ(::truncate(At("hole").c_str(), off_t{1} << 42), 0);
  ExpectRefused(At("hole"), "holds 4398046511104 bytes; at most 1048576 are read");
}

TEST_F(InputFileTest, AFileThatShrinksIsAnError) {
  std::ofstream(At("file")) << "0123456789";
  const InputFile file(At("file"));
  ASSERT_EQ(::truncate(At("file").c_str(), 4), 0);
  char bytes[10];
  EXPECT_THROW(file.Read(0, 10, bytes), FileError);
  file.Read(1, 3, bytes);
  EXPECT_EQ(std::string(bytes, 3), "123");
}

TEST_F(InputFileTest, StandardInputMayBeAPipeAndEndsAtTheLimit) {
  const auto through_pipe = [](const std::string& text, int64_t most_bytes) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    EXPECT_EQ(::write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
    ::close(ends[1]);
    const int before = ::dup(STDIN_FILENO);
    ::dup2(ends[0], STDIN_FILENO);
    std::string read;
    try {
      read = ReadStandardInput(most_bytes);
    } catch (const FileError& error) {
      read = error.what();
    }
    ::dup2(before, STDIN_FILENO);
    ::close(before);
    ::close(ends[0]);
    return read;
  };
  EXPECT_EQ(through_pipe("text", 4), "text");
  EXPECT_EQ(through_pipe("", 4), "");
  EXPECT_EQ(through_pipe("texts", 4), "standard input holds more bytes; at most 4 are read");
}

}  // namespace
}  // namespace heed
