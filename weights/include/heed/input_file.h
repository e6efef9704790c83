// Reads regular files of a known size, within a limit.
#ifndef HEED_INPUT_FILE_H_
#define HEED_INPUT_FILE_H_

#include <cstdint>
#include <limits>
#include <string>

namespace heed {

// An open regular file, also through a symbolic link. Every failure throws FileError, naming the path and the reason; for
// directories, FIFOs, sockets and devices at once, without waiting for a writer.
class InputFile {
 public:
  // Throws FileError for a file larger than `most_bytes`.
  explicit InputFile(std::string path, int64_t most_bytes = std::numeric_limits<int64_t>::max());
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }  // in bytes, when it was opened

  // Reads exactly `count` bytes from `offset` on.
  void Read(int64_t offset, int64_t count, void* bytes) const;

  // Throws FileError, naming the path, the byte and `what`.
  [[noreturn]] void Fail(int64_t byte, const std::string& what) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  int64_t size_ = 0;
};

// Read a whole regular file of at most `most_bytes`, or standard input, which may be a FIFO or a terminal, to its end. A signal
// with a handler ends the reading of standard input with a FileError.
std::string ReadFile(const std::string& path, int64_t most_bytes);
std::string ReadStandardInput(int64_t most_bytes);

// "a directory", "a FIFO", ..., for st_mode of stat().
const char* KindOfFile(unsigned mode);

}  // namespace heed

#endif  // HEED_INPUT_FILE_H_
