// Files that are either whole or not there.
#ifndef HEED_LAB_REPORT_FILE_H_
#define HEED_LAB_REPORT_FILE_H_

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace heed::lab {

// A file written piece by piece beside `path` and renamed to it when finished, so a reader sees the old file or the new one,
// never a part. Missing directories are made. Every method throws FileError naming the path and the reason; no partial file is
// left behind then, nor when the object goes unfinished.
class NewFile {
 public:
  explicit NewFile(std::filesystem::path path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  void Write(std::string_view bytes);
  void Finish();

 private:
  std::filesystem::path path_, beside_;
  std::ofstream stream_;
  bool finished_ = false;
};

// A NewFile in one piece.
void WriteFile(const std::filesystem::path& path, std::string_view contents);

// The whole file as bytes. Throws FileError naming the path and the reason.
std::string ReadFile(const std::filesystem::path& path);

}  // namespace heed::lab

#endif  // HEED_LAB_REPORT_FILE_H_
