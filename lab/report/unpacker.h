// Reads gzip files as if they were not compressed.
#ifndef HEED_LAB_REPORT_UNPACKER_H_
#define HEED_LAB_REPORT_UNPACKER_H_

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace heed::lab {

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

}  // namespace heed::lab

#endif  // HEED_LAB_REPORT_UNPACKER_H_
