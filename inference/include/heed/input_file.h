// Files that are read: regular ones, of a known size, within a limit.
#ifndef HEED_INPUT_FILE_H_
#define HEED_INPUT_FILE_H_

#include <cstdint>
#include <limits>
#include <string>

namespace heed {

// An open regular file, or what a symbolic link to one leads to. Directories, FIFOs, sockets and devices are refused by name,
// without waiting for a writer. Every failure throws FileError that names the path and the reason.
class InputFile {
 public:
  // A file larger than `most_bytes` is refused.
  explicit InputFile(std::string path, int64_t most_bytes = std::numeric_limits<int64_t>::max());
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }  // when it was opened

  // Exactly `count` bytes that begin at `offset`.
  void Read(int64_t offset, int64_t count, void* bytes) const;

  // Throws FileError that names the path, the byte and `what`.
  [[noreturn]] void Fail(int64_t byte, const std::string& what) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  int64_t size_ = 0;
};

// The whole of a regular file of at most `most_bytes`, or of standard input, which may be a FIFO or a terminal and is read to
// its end. A signal that a handler catches ends the reading of standard input with a FileError.
std::string ReadFile(const std::string& path, int64_t most_bytes);
std::string ReadStandardInput(int64_t most_bytes);

// "a directory", "a FIFO", ..., for st_mode of stat().
const char* KindOfFile(unsigned mode);

}  // namespace heed

#endif  // HEED_INPUT_FILE_H_
