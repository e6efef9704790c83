#include "heed/replacement_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

#include "heed/error.h"
#include "heed/input_file.h"

namespace heed {
namespace {

constexpr std::size_t kMaxWrite = std::size_t{1} << 30;  // Linux moves at most 2 GiB - 4 KiB in one call
constexpr int kMaxLinks = 40;                            // that Linux follows in one path
// Between a file's name and the number of its writer. No other program is likely to name a file so: what bears it is removed.
constexpr char kPartial[] = ".heed.part-";

// With its slash; "./" for a name alone.
std::string FolderOf(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "./" : path.substr(0, slash + 1);
}

// The name behind the last slash.
std::string NameIn(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// A folder held by its descriptor, opened to read its entries or to make them last; -1 where it may not be read.
int OpenEntries(int folder) { return ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); }

// Makes a rename survive a power failure where the file system supports it.
void SyncFolder(int folder) {
  const int descriptor = OpenEntries(folder);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

bool SameFile(const struct stat& a, const struct stat& b) { return a.st_dev == b.st_dev && a.st_ino == b.st_ino; }

// "PID-SERIAL"
bool IsWriterNumber(std::string_view text) {
  const std::size_t dash = text.find('-');
  const auto digits = [](std::string_view part) {
    return !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
  };
  return dash != std::string_view::npos && digits(text.substr(0, dash)) && digits(text.substr(dash + 1));
}

// Whoever gets the lock knows that the writer is gone, whatever process has its number now.
void RemoveIfAbandoned(int folder, const char* name) {
  const int descriptor = ::openat(folder, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (descriptor < 0) return;
  struct stat open {
  }, named{};
  const bool abandoned =
      ::fstat(descriptor, &open) == 0 && S_ISREG(open.st_mode) && ::flock(descriptor, LOCK_EX | LOCK_NB) == 0;
  // A writer that finished meanwhile has renamed it.
  if (abandoned && ::fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 && SameFile(open, named)) {
    ::unlinkat(folder, name, 0);
  }
  ::close(descriptor);
}

void RemoveLeftovers(int folder, const std::string& name_of_target) {
  const std::string prefix = name_of_target + kPartial;
  const int descriptor = OpenEntries(folder);
  if (descriptor < 0) return;
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::fdopendir(descriptor), &::closedir);
  if (!entries) {
    ::close(descriptor);
    return;
  }
  while (const dirent* entry = ::readdir(entries.get())) {
    const std::string_view name = entry->d_name;
    if (name.starts_with(prefix) && IsWriterNumber(name.substr(prefix.size()))) RemoveIfAbandoned(folder, entry->d_name);
  }
}

}  // namespace

ReplacementFile::ReplacementFile(std::string path) : path_(std::move(path)) {
  if (const std::size_t nul = path_.find('\0'); nul != std::string::npos) {
    throw FileError("cannot create '" + path_.substr(0, nul) + "': a NUL follows in the name");
  }
  if (path_.empty()) throw FileError("cannot create a file without a name");
  FindTarget();
  // Whatever the path leads to later: the file is written, renamed and removed in this folder.
  folder_ = ::open(FolderOf(target_).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (folder_ < 0) Fail("create", errno);
  RemoveLeftovers(folder_, NameIn(target_));
  try {
    Create();
    if (replaces_) KeepOwnerAndMode();
  } catch (...) {
    Close();
    throw;
  }
}

ReplacementFile::~ReplacementFile() { Close(); }

void ReplacementFile::Close() {
  // While the lock is held: the name is still ours.
  if (descriptor_ >= 0) {
    ::unlinkat(folder_, partial_name_.c_str(), 0);
    ::close(descriptor_);
  }
  ::close(folder_);
}

void ReplacementFile::RefuseUnlessRegular(const struct stat& status) const {
  if (S_ISREG(status.st_mode)) return;
  throw FileError("cannot replace '" + path_ + "': it is " + KindOfFile(status.st_mode) + ", not a regular file");
}

void ReplacementFile::FindTarget() {
  replaces_ = ::stat(path_.c_str(), &old_) == 0;
  if (!replaces_ && errno != ENOENT) Fail("create", errno);
  if (replaces_) RefuseUnlessRegular(old_);
  target_ = path_;
  struct stat status {};
  const auto look = [&] { return ::lstat(target_.c_str(), &status) == 0; };
  bool named = look();
  for (int links = 0; named && S_ISLNK(status.st_mode); ++links) {
    if (links == kMaxLinks) Fail("create", ELOOP);
    std::string next(PATH_MAX, '\0');
    const ssize_t length = ::readlink(target_.c_str(), next.data(), next.size());
    if (length < 0) Fail("create", errno);
    next.resize(static_cast<std::size_t>(length));
    target_ = next.starts_with('/') ? next : FolderOf(target_) + next;
    named = look();
  }
  if (target_.ends_with('/')) Fail("create", EISDIR);
  if (!replaces_) return;
  // Links of /proc lead to files whose names may be gone. A file with a name may be another by now: writers race.
  if (!named) throw FileError("cannot replace '" + path_ + "': its link leads to a file without a name");
  RefuseUnlessRegular(old_ = status);
  if (::faccessat(AT_FDCWD, target_.c_str(), W_OK, AT_EACCESS) != 0) Fail("replace", errno);
}

void ReplacementFile::Create() {
  static std::atomic<int> serial{0};
  const mode_t mode = replaces_ ? 0600 : 0666;  // nobody sees more of the new file than of the old one
  while (true) {
    partial_name_ = NameIn(target_) + kPartial + std::to_string(::getpid()) + "-" + std::to_string(serial++);
    descriptor_ = ::openat(folder_, partial_name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (descriptor_ < 0 && (errno == EEXIST || errno == EINTR)) continue;
    if (descriptor_ < 0) Fail("create", errno);
    if (Lock()) return;
    ::close(descriptor_);
  }
}

// False if another writer took the new file for an abandoned one before it was locked. Where the file system has no locks,
// leftovers are not removed either.
bool ReplacementFile::Lock() const {
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) return errno != EWOULDBLOCK;
  struct stat status {};
  return ::fstat(descriptor_, &status) == 0 && status.st_nlink > 0;
}

void ReplacementFile::KeepOwnerAndMode() {
  struct stat own {};
  if (::fstat(descriptor_, &own) != 0) Fail("create", errno);
  mode_t mode = old_.st_mode & 0777;
  // Where the owner cannot be kept, the file belongs to whoever wrote it.
  if (own.st_uid != old_.st_uid) static_cast<void>(::fchown(descriptor_, old_.st_uid, static_cast<gid_t>(-1)) == 0);
  // What the old group might do was not meant for another one; that may do what everyone may.
  if (own.st_gid != old_.st_gid && ::fchown(descriptor_, static_cast<uid_t>(-1), old_.st_gid) != 0) {
    mode = (mode & 0707) | ((mode & 07) << 3);
  }
  if (::fchmod(descriptor_, mode) != 0) Fail("create", errno);
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
  const std::string name = NameIn(target_);
  struct stat status {};  // it may be something else by now
  if (::fstatat(folder_, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) RefuseUnlessRegular(status);
  if (::renameat(folder_, partial_name_.c_str(), folder_, name.c_str()) != 0) Fail("replace", errno);
  SyncFolder(folder_);
  ::close(std::exchange(descriptor_, -1));
}

void ReplacementFile::Fail(const char* step, int error) const {
  throw FileError("cannot " + std::string(step) + " '" + path_ + "': " + std::generic_category().message(error));
}

}  // namespace heed
