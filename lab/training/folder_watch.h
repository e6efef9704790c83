// Checks that a folder is still the one in which work began.
#ifndef HEED_LAB_TRAINING_FOLDER_WATCH_H_
#define HEED_LAB_TRAINING_FOLDER_WATCH_H_

#include <filesystem>
#include <string>

namespace heed::lab {

// Keeps the folder open, so that no other one can take its place unnoticed.
class FolderWatch {
 public:
  // The folder `path`, in which the file `file` marks that it is whole. Throws FileError where there is none.
  FolderWatch(std::filesystem::path path, std::string file);
  ~FolderWatch();
  FolderWatch(const FolderWatch&) = delete;
  FolderWatch& operator=(const FolderWatch&) = delete;

  // Throws FileError that names the folder where the path leads to another one or to none, or the file is gone.
  void Check() const;

 private:
  std::filesystem::path path_;
  std::string file_;
  int descriptor_;
};

}  // namespace heed::lab

#endif  // HEED_LAB_TRAINING_FOLDER_WATCH_H_
