#include "replacement_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "heed/error.h"

namespace heed::nn {
namespace {

constexpr std::size_t kMaxWrite = std::size_t{1} << 30;  // Linux moves at most 2 GiB - 4 KiB in one call

// Makes a rename survive a power failure where the file system supports it.
void SyncFolderOf(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

}  // namespace

ReplacementFile::ReplacementFile(std::string path) : path_(std::move(path)) {
  static std::atomic<int> serial{0};
  do {
    partial_path_ = path_ + "." + std::to_string(::getpid()) + "-" + std::to_string(serial++) + ".partial";
    descriptor_ = ::open(partial_path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && (errno == EEXIST || errno == EINTR));
  if (descriptor_ < 0) Fail("create", errno);
}

ReplacementFile::~ReplacementFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!committed_) ::unlink(partial_path_.c_str());
}

void ReplacementFile::Write(const void* bytes, std::size_t count) {
  const char* next = static_cast<const char*>(bytes);
  while (count > 0) {
    const ssize_t written = ::write(descriptor_, next, std::min(count, kMaxWrite));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) Fail("write", written < 0 ? errno : ENOSPC);
    next += written;
    count -= static_cast<std::size_t>(written);
  }
}

void ReplacementFile::Commit() {
  if (::fsync(descriptor_) != 0) Fail("write", errno);
  if (::close(std::exchange(descriptor_, -1)) != 0) Fail("write", errno);
  if (std::rename(partial_path_.c_str(), path_.c_str()) != 0) Fail("replace", errno);
  committed_ = true;
  SyncFolderOf(path_);
}

void ReplacementFile::Fail(const char* step, int error) const {
  throw FileError("cannot " + std::string(step) + " '" + path_ + "': " + std::generic_category().message(error));
}

}  // namespace heed::nn
