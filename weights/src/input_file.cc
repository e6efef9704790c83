#include "heed/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <system_error>
#include <utility>

#include "heed/error.h"

namespace heed {
namespace {

constexpr int64_t kMaxRead = int64_t{1} << 30;  // Linux moves at most 2 GiB - 4 KiB in one call
constexpr std::size_t kBlock = std::size_t{1} << 16;

std::string Reason(int error) { return std::generic_category().message(error); }

[[noreturn]] void TooLarge(const std::string& whose, const std::string& bytes, int64_t most_bytes) {
  throw FileError(whose + " holds " + bytes + " bytes; at most " + std::to_string(most_bytes) + " are read");
}

}  // namespace

const char* KindOfFile(unsigned mode) {
  switch (mode & S_IFMT) {
    case S_IFREG:
      return "a regular file";
    case S_IFDIR:
      return "a directory";
    case S_IFIFO:
      return "a FIFO";
    case S_IFSOCK:
      return "a socket";
    case S_IFLNK:
      return "a symbolic link";
    default:
      return "a device";
  }
}

InputFile::InputFile(std::string path, int64_t most_bytes) : path_(std::move(path)) {
  if (path_.find('\0') != std::string::npos)
    throw FileError("'" + path_.substr(0, path_.find('\0')) + "': a NUL is in the name");
  // Without O_NONBLOCK a FIFO would be waited for before it can be refused.
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  const int error = errno;
  struct stat status {};
  // A socket, and a device without a driver, cannot even be opened.
  const bool known = descriptor_ >= 0 ? ::fstat(descriptor_, &status) == 0 : ::stat(path_.c_str(), &status) == 0;
  const bool regular = known && S_ISREG(status.st_mode);
  try {
    if (known && !regular) {
      throw FileError("'" + path_ + "' is " + KindOfFile(status.st_mode) + "; a regular file is expected");
    }
    if (descriptor_ < 0 || !known) throw FileError("'" + path_ + "' cannot be opened: " + Reason(error));
    size_ = status.st_size;
    if (size_ > most_bytes) TooLarge("'" + path_ + "'", std::to_string(size_), most_bytes);
  } catch (const FileError&) {
    if (descriptor_ >= 0) ::close(descriptor_);
    throw;
  }
}

InputFile::~InputFile() { ::close(descriptor_); }

void InputFile::Read(int64_t offset, int64_t count, void* bytes) const {
  char* next = static_cast<char*>(bytes);
  while (count > 0) {
    const ssize_t got = ::pread(descriptor_, next, static_cast<std::size_t>(std::min(count, kMaxRead)), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) Fail(offset, "cannot read: " + Reason(errno));
    if (got == 0) Fail(offset, "the file became shorter while it was read");
    next += got;
    offset += got;
    count -= got;
  }
}

void InputFile::Fail(int64_t byte, const std::string& what) const {
  throw FileError("'" + path_ + "', byte " + std::to_string(byte) + ": " + what);
}

std::string ReadFile(const std::string& path, int64_t most_bytes) {
  const InputFile file(path, most_bytes);
  std::string bytes;
  try {
    bytes.resize(static_cast<std::size_t>(file.size()));
  } catch (const std::bad_alloc&) {
    file.Fail(0, "no memory for its " + std::to_string(file.size()) + " bytes");
  }
  file.Read(0, file.size(), bytes.data());
  return bytes;
}

std::string ReadStandardInput(int64_t most_bytes) {
  std::string bytes;
  std::size_t size = 0;
  while (true) {
    try {
      bytes.resize(size + kBlock);
    } catch (const std::bad_alloc&) {
      throw FileError("standard input: no memory for more than " + std::to_string(size) + " bytes");
    }
    const ssize_t got = ::read(STDIN_FILENO, bytes.data() + size, kBlock);
    if (got < 0) throw FileError("standard input cannot be read: " + Reason(errno));
    size += static_cast<std::size_t>(got);
    if (size > static_cast<std::size_t>(most_bytes)) TooLarge("standard input", "more", most_bytes);
    if (got == 0) break;
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace heed
