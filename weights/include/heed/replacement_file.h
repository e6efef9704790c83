// Writes files that appear under their names whole or not at all.
#ifndef HEED_REPLACEMENT_FILE_H_
#define HEED_REPLACEMENT_FILE_H_

#include <sys/stat.h>

#include <cstddef>
#include <string>

namespace heed {

// Write collects bytes in a new file beside `path`; Commit() makes them durable and renames the file over `path`, in the folder
// that `path` led to at first, even if it leads elsewhere by then. Without a completed Commit the destructor removes the new
// file, and the old one stays. Every failure throws FileError.
//
// It replaces only regular files, and throws for a directory, FIFO, socket or device, and for a file that this process may not
// write. If `path` is a symbolic link, it replaces or makes the target, and the link stays. The new file has the permissions of
// the old one, and its owner and group if this process may set them. Another hard link keeps the old contents.
//
// The writer locks the new file. The next writer of the same file removes the leftovers of a killed process. Two writers of one
// file do not disturb each other; the last Commit stays.
class ReplacementFile {
 public:
  explicit ReplacementFile(std::string path);
  ~ReplacementFile();
  ReplacementFile(const ReplacementFile&) = delete;
  ReplacementFile& operator=(const ReplacementFile&) = delete;

  void Write(const void* bytes, std::size_t count);
  void Commit();

 private:
  [[noreturn]] void Fail(const char* step, int error) const;
  void RefuseUnlessRegular(const struct stat& status) const;
  void FindTarget();
  void Create();
  void Close();
  bool Lock() const;
  void KeepOwnerAndMode();

  std::string path_;                   // as given
  std::string target_, partial_name_;  // after symbolic links
  struct stat old_ {};                 // of the replaced file
  bool replaces_ = false;
  int folder_ = -1, descriptor_ = -1;  // until it is committed the new file's
};

}  // namespace heed

#endif  // HEED_REPLACEMENT_FILE_H_
