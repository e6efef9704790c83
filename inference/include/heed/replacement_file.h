// Files that are written: each appears under its name whole or not at all.
#ifndef HEED_REPLACEMENT_FILE_H_
#define HEED_REPLACEMENT_FILE_H_

#include <sys/stat.h>

#include <cstddef>
#include <string>

namespace heed {

// Collects bytes in a new file beside `path`; Commit() makes them durable and renames the file over `path`. Without a Commit
// that returned, the new file is removed and the old one stays as it was. Every failure throws FileError.
//
// Only regular files are replaced: a directory, FIFO, socket or device is refused by name. Where `path` is a symbolic link, the
// file that it leads to is replaced or made, and the link stays. The new file has the permissions of the one that it replaces,
// and its owner and group where this process may give them. A file that this process may not write is not replaced; a second
// hard link to it keeps the old contents.
//
// The new file is locked while its writer lives. What a killed process left behind is removed by the next one that writes the
// same file. Two writers of one file do not disturb each other; the last Commit stays.
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
  bool Lock() const;
  void KeepOwnerAndMode();

  std::string path_;                   // as the caller names it
  std::string target_, partial_path_;  // behind symbolic links
  struct stat old_ {};                 // of the file that is replaced
  bool replaces_ = false, committed_ = false;
  int descriptor_ = -1;
};

}  // namespace heed

#endif  // HEED_REPLACEMENT_FILE_H_
