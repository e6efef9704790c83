// Files of the laboratory: read within limits, written whole or not at all.
#ifndef HEED_LAB_REPORT_FILE_H_
#define HEED_LAB_REPORT_FILE_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace heed::lab {

// An nn::ReplacementFile in one piece: a reader sees the old file or the new one, never a part, and only regular files are
// replaced. Missing directories are made. Throws FileError naming the path and the reason.
void WriteFile(const std::filesystem::path& path, std::string_view contents);

// Makes the directories that `path` lies in. Throws FileError naming the path.
void MakeFolderOf(const std::filesystem::path& path);

// Of a file with settings or kept results, which is parsed into many small pieces.
inline constexpr int64_t kMostSettingsBytes = int64_t{64} << 20;

// Of a text or data file: a sixteenth of this machine's memory, at most 4 GiB. A text takes about nine times its bytes while it
// is encoded, a table about eight.
int64_t MostDataBytes();

// The whole of a regular file as bytes. A directory, FIFO, socket or device, and a file of more than `most_bytes`, is refused
// before memory is taken for it. Throws FileError naming the path and the reason.
std::string ReadFile(const std::filesystem::path& path, int64_t most_bytes = MostDataBytes());

// The same, or all of standard input where the path is "-"; what gzip compressed is unpacked.
std::string ReadInput(const std::filesystem::path& path);
// What messages call it.
std::string NameOfInput(const std::filesystem::path& path);

// What to say of bytes that are no UTF-8 from `place` of the text on: " is not UTF-8: ..", with what helps.
std::string NotUtf8(std::string_view bytes, int64_t place);
// Bytes of a text without the byte order mark that may stand at their front.
std::string_view WithoutByteOrderMark(std::string_view bytes);
// The same. Throws FileError that begins with `name` and tells the byte at which they are no UTF-8. `first`: where they begin
// in the text; `last`: whether they end it, else a character may go on behind them.
std::string_view RequireUtf8(const std::string& name, std::string_view bytes, int64_t first = 0, bool last = true);

// FNV-1a, 64 bits, of the bytes of both, as 16 hexadecimal digits. It tells contents apart that nobody made to look alike.
std::string Fingerprint(std::string_view bytes, std::string_view more = {});

// Takes the bytes of a file as they come. Those that do not begin as gzip writes them stay as they are.
class Unpacker {
 public:
  explicit Unpacker(std::string name);
  ~Unpacker();

  // Appends what `bytes` hold to `to`; `last`: no others follow. Throws FileError that names the file: it is damaged or cut
  // off, or `to` would have more than MostDataBytes().
  void Append(std::string_view bytes, bool last, std::string& to);

 private:
  struct Stream;
  void Inflate(std::string_view bytes, std::string& to);

  std::string name_, begin_;
  bool decided_ = false;
  std::unique_ptr<Stream> stream_;  // none: the bytes are not compressed
};

// Whether bytes, or a file, begin as gzip writes them.
bool IsCompressed(std::string_view bytes);
bool IsCompressed(const std::filesystem::path& path);

// Tries, before the work whose results are to be written: makes the folder and a file in it, and removes what was made. Throws
// FileError that names the folder and the reason.
void RequireWritableFolder(const std::filesystem::path& folder);

// The same for the folder of a file; `file` itself must be a regular file, or not be there.
void RequireWritableFile(const std::filesystem::path& file);

}  // namespace heed::lab

#endif  // HEED_LAB_REPORT_FILE_H_
