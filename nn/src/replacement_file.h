// A file that appears under its name whole or not at all.
#ifndef HEED_NN_SRC_REPLACEMENT_FILE_H_
#define HEED_NN_SRC_REPLACEMENT_FILE_H_

#include <cstddef>
#include <string>

namespace heed::nn {

// Collects bytes in a new file beside `path`; Commit() makes them durable and renames the file over `path`. Without a Commit
// that returned, the new file is removed and the old one stays as it was. Every failure throws FileError.
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

  std::string path_, partial_path_;
  int descriptor_ = -1;
  bool committed_ = false;
};

}  // namespace heed::nn

#endif  // HEED_NN_SRC_REPLACEMENT_FILE_H_
