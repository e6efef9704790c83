#include "lab/training/folder_watch.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "heed/error.h"

namespace heed::lab {

FolderWatch::FolderWatch(std::filesystem::path path, std::string file)
    : path_(std::move(path)), file_(std::move(file)), descriptor_(open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (descriptor_ < 0) throw FileError(path_.string() + ": the folder cannot be opened: " + std::strerror(errno));
}

FolderWatch::~FolderWatch() { close(descriptor_); }

void FolderWatch::Check() const {
  struct stat begun {
  }, now{}, marker{};
  const bool same = fstat(descriptor_, &begun) == 0 && stat(path_.c_str(), &now) == 0 && begun.st_dev == now.st_dev &&
                    begun.st_ino == now.st_ino;
  if (!same) throw FileError(path_.string() + ": the folder was removed or replaced during the work; nothing more is written");
  if (fstatat(descriptor_, file_.c_str(), &marker, 0) != 0) {
    throw FileError((path_ / file_).string() + ": the file was removed during the work; nothing more is written");
  }
}

}  // namespace heed::lab
