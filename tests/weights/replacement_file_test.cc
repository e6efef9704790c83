// A file is replaced whole by a regular file, or stays what it was; nothing that is left behind stays for ever.
#include "heed/replacement_file.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "heed/error.h"
#include "tests/folder_fixture.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

class ReplacementFileTest : public ScratchFolderTest {
 protected:
  static void Write(const std::string& path, const std::string& text) {
    ReplacementFile file(path);
    file.Write(text.data(), text.size());
    file.Commit();
  }
  static std::string Read(const std::string& path) {
    std::ostringstream bytes;
    bytes << std::ifstream(path, std::ios::binary).rdbuf();
    return bytes.str();
  }
  static mode_t ModeOf(const std::string& path) {
    struct stat status {};
    EXPECT_EQ(::lstat(path.c_str(), &status), 0) << path;
    return status.st_mode;
  }
  void ExpectRefused(const std::string& path, const std::string& part) const {
    const std::set<std::string> before = Names();
    try {
      ReplacementFile file(path);
      ADD_FAILURE() << path;
    } catch (const FileError& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
    EXPECT_EQ(Names(), before);
  }
};

TEST_F(ReplacementFileTest, WhatIsNoRegularFileStaysWhatItIs) {
  ASSERT_EQ(::mkfifo(At("fifo").c_str(), 0600), 0);
  ASSERT_TRUE(fs::create_directory(At("folder")));
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = At("socket");
  ASSERT_LT(name.size(), sizeof address.sun_path);
  name.copy(address.sun_path, name.size());
  ASSERT_EQ(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ::close(socket);
  ExpectRefused(At("fifo"), "it is a FIFO, not a regular file");
  ExpectRefused(At("folder"), "it is a directory");
  ExpectRefused(At("folder") + "/", "it is a directory");
  ExpectRefused(At("socket"), "it is a socket");
  // A node of our own: a mistake must not cost the machine its /dev/null. Only root may make one.
  if (::mknod(At("null").c_str(), S_IFCHR | 0600, (1 << 8) | 3) == 0) {
    ExpectRefused(At("null"), "it is a device");
    EXPECT_TRUE(S_ISCHR(ModeOf(At("null"))));
  }
  fs::create_symlink("fifo", At("link"));
  ExpectRefused(At("link"), "it is a FIFO");
  EXPECT_TRUE(S_ISFIFO(ModeOf(At("fifo"))));
  EXPECT_TRUE(S_ISLNK(ModeOf(At("link"))));
}

TEST_F(ReplacementFileTest, ATargetThatStopsBeingAFileIsNotReplaced) {
  Write(At("file"), "old");
  ReplacementFile file(At("file"));
  fs::remove(At("file"));
  ASSERT_EQ(::mkfifo(At("file").c_str(), 0600), 0);
  EXPECT_THROW(file.Commit(), FileError);
  EXPECT_TRUE(S_ISFIFO(ModeOf(At("file"))));
}

TEST_F(ReplacementFileTest, LinksAreFollowedAndStay) {
  ASSERT_TRUE(fs::create_directory(At("elsewhere")));
  Write(At("elsewhere/real"), "old");
  fs::create_symlink("elsewhere/second", At("first"));
  fs::create_symlink("real", At("elsewhere/second"));
  Write(At("first"), "new");
  EXPECT_EQ(Read(At("elsewhere/real")), "new");
  EXPECT_TRUE(fs::is_symlink(At("first")) && fs::is_symlink(At("elsewhere/second")));

  fs::create_symlink(At("elsewhere/absent"), At("dangling"));
  Write(At("dangling"), "made");
  EXPECT_EQ(Read(At("elsewhere/absent")), "made");
  EXPECT_TRUE(fs::is_symlink(At("dangling")));

  fs::create_symlink("loop", At("loop"));
  ExpectRefused(At("loop"), "loop");
  fs::create_symlink("nowhere/file", At("lost"));
  ExpectRefused(At("lost"), "No such file");
  EXPECT_EQ(Names(), (std::set<std::string>{"elsewhere", "first", "dangling", "loop", "lost"}));
}

TEST_F(ReplacementFileTest, PermissionsStay) {
  for (const mode_t mode : {0600, 0640, 0664, 0755}) {
    Write(At("file"), "old");
    ASSERT_EQ(::chmod(At("file").c_str(), mode), 0);
    Write(At("file"), "new");
    EXPECT_EQ(ModeOf(At("file")) & 07777, mode);
  }
  const mode_t mask = ::umask(027);
  Write(At("fresh"), "new");
  ::umask(mask);
  EXPECT_EQ(ModeOf(At("fresh")) & 07777, 0640u);
}

TEST_F(ReplacementFileTest, TheOwnerStaysWhereRootWrites) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may give files away";
  Write(At("file"), "old");
  ASSERT_EQ(::chown(At("file").c_str(), 12345, 23456), 0);
  Write(At("file"), "new");
  struct stat status {};
  ASSERT_EQ(::stat(At("file").c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, 12345u);
  EXPECT_EQ(status.st_gid, 23456u);
}

// Runs in a process of its own; its exit status is the number of failures.
int InChild(const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    body();
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

TEST_F(ReplacementFileTest, AFileThatMayNotBeWrittenIsNotReplaced) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become somebody else";
  fs::permissions(folder(), fs::perms::all);
  Write(At("file"), "old");
  const int status = InChild([&] {
    ASSERT_EQ(::setresgid(65534, 65534, 65534), 0);
    ASSERT_EQ(::setresuid(65534, 65534, 65534), 0);
    ExpectRefused(At("file"), "Permission denied");
    ASSERT_EQ(::mkfifo(At("own").c_str(), 0600), 0);  // the folder itself may be written
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(Read(At("file")), "old");
}

TEST_F(ReplacementFileTest, NamesThatCannotBeAreRefused) {
  ExpectRefused(At(std::string("file\0.part", 10)), "NUL");
  ExpectRefused("", "without a name");
  ExpectRefused(At("absent/file"), "No such file");
  ExpectRefused(At("absent") + "/", "directory");
  ExpectRefused(At(std::string(255, 'n')), "too long");
}

TEST_F(ReplacementFileTest, WhatAKilledProcessLeavesIsRemovedByTheNextWriter) {
  const int status = InChild([&] {
    ReplacementFile file(At("file"));
    file.Write("part", 4);
    ::raise(SIGKILL);
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_EQ(Names().size(), 1u);
  ASSERT_NE(Names().begin()->find("file.heed.part-"), std::string::npos);
  // The number of a process that lives says nothing: numbers come again.
  std::ofstream(At("file.heed.part-" + std::to_string(::getpid()) + "-7")) << "old";
  // What others have named, of other files or in other ways.
  const std::set<std::string> others = {"file.part-1", "file.heed.part-x-1", "file.heed.part-1", "file2.heed.part-1-1"};
  for (const std::string& other : others) std::ofstream(At(other)) << "theirs";
  fs::create_symlink("file.part-1", At("file.heed.part-1-1"));
  Write(At("file"), "new");
  std::set<std::string> expected = others;
  expected.insert({"file", "file.heed.part-1-1"});
  EXPECT_EQ(Names(), expected);
}

TEST_F(ReplacementFileTest, TheFileOfALivingWriterIsLeftAlone) {
  ReplacementFile slow(At("file"));
  slow.Write("slow", 4);
  Write(At("file"), "quick");
  EXPECT_EQ(Names().size(), 2u);
  slow.Commit();
  EXPECT_EQ(Read(At("file")), "slow");
  EXPECT_EQ(Names(), std::set<std::string>{"file"});
}

TEST_F(ReplacementFileTest, WritersThatRaceEachLeaveAWholeFile) {
  std::vector<std::thread> writers;
  for (char letter = 'a'; letter < 'e'; ++letter) {
    writers.emplace_back([&, letter] {
      for (int i = 0; i < 25; ++i) Write(At("file"), std::string(10000, letter));
    });
  }
  for (std::thread& writer : writers) writer.join();
  const std::string text = Read(At("file"));
  EXPECT_EQ(text, std::string(10000, text.at(0)));
  EXPECT_EQ(Names(), std::set<std::string>{"file"});
}

// Somebody moves the folder away and puts another, or a link to another, in its place.
TEST_F(ReplacementFileTest, AFolderThatMovesTakesItsFileAlong) {
  for (const bool committed : {true, false}) {
    ASSERT_TRUE(fs::create_directory(At("run")));
    ASSERT_TRUE(fs::create_directory(At("other")));
    std::optional<ReplacementFile> file(std::in_place, At("run/file"));
    file->Write("new", 3);
    fs::rename(At("run"), At("moved"));
    fs::create_symlink("other", At("run"));
    if (committed) file->Commit();
    file.reset();
    EXPECT_TRUE(fs::is_empty(At("other")));
    EXPECT_EQ(fs::exists(At("moved/file")), committed);
    EXPECT_EQ(std::distance(fs::directory_iterator(At("moved")), {}), committed ? 1 : 0);
    for (const char* name : {"run", "other", "moved"}) fs::remove_all(At(name));
  }
}

TEST_F(ReplacementFileTest, AFolderThatVanishesIsAnError) {
  ASSERT_TRUE(fs::create_directory(At("run")));
  std::optional<ReplacementFile> file(std::in_place, At("run/file"));
  fs::remove_all(At("run"));
  EXPECT_THROW(file->Commit(), FileError);
  file.reset();
  EXPECT_TRUE(Names().empty());
}

}  // namespace
}  // namespace heed
