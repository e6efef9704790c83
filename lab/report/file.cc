#include "lab/report/file.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <system_error>

#include <fmt/core.h>

#include "heed/error.h"
#include "heed/input_file.h"
#include "heed/nn/input_file.h"
#include "heed/nn/replacement_file.h"
#include "heed/utf8.h"
#include "lab/report/printable.h"
#include "lab/report/unpacker.h"

namespace heed::lab {

void MakeFolderOf(const std::filesystem::path& path) {
  std::error_code error;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), error);
  if (error) throw FileError(path.string() + ": its directory cannot be made: " + error.message());
}

void WriteFile(const std::filesystem::path& path, std::string_view contents) {
  MakeFolderOf(path);
  nn::ReplacementFile file(path.string());
  file.Write(contents.data(), contents.size());
  file.Commit();
}

int64_t MostDataBytes() {
  constexpr int64_t kMost = int64_t{4} << 30;
  const int64_t pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? std::min(pages / 16 * page, kMost) : kMost;
}

std::string ReadFile(const std::filesystem::path& path, int64_t most_bytes) { return nn::ReadFile(path.string(), most_bytes); }

std::string ReadInput(const std::filesystem::path& path) {
  constexpr std::size_t kAtOnce = size_t{1} << 24;
  std::string bytes = path == "-" ? ReadStandardInput(MostDataBytes()) : ReadFile(path);
  if (!IsCompressed(std::string_view(bytes))) return bytes;
  std::string unpacked;
  Unpacker unpacker(NameOfInput(path));
  for (std::string_view left = bytes; !left.empty();) {
    const std::string_view some = left.substr(0, kAtOnce);
    left.remove_prefix(some.size());
    unpacker.Append(some, left.empty(), unpacked);
  }
  return unpacked;
}

std::string NameOfInput(const std::filesystem::path& path) { return path == "-" ? "standard input" : Printable(path.string()); }

std::string_view WithoutByteOrderMark(std::string_view bytes) {
  if (bytes.starts_with("\xef\xbb\xbf")) bytes.remove_prefix(3);
  return bytes;
}

std::string NotUtf8(std::string_view bytes, int64_t place) {
  if (place == 0 && (bytes.starts_with("\xff\xfe") || bytes.starts_with("\xfe\xff")))
    return " is UTF-16; save it as UTF-8, as by: iconv -f UTF-16 -t UTF-8 FILE > NEW";
  return " is not UTF-8: no valid character begins at byte " + std::to_string(place) +
         "; save it as UTF-8, as by: iconv -f WINDOWS-1252 -t UTF-8 FILE > NEW";
}

std::string_view RequireUtf8(const std::string& name, std::string_view bytes, int64_t first, bool last) {
  constexpr std::size_t kLongest = 4;  // bytes of a character
  const std::size_t read = DecodeUtf8(bytes).read;
  if (read == bytes.size() || (!last && bytes.size() - read < kLongest)) return WithoutByteOrderMark(bytes);
  throw FileError(name + NotUtf8(bytes.substr(read), first + static_cast<int64_t>(read)));
}

std::string Fingerprint(std::string_view bytes, std::string_view more) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const std::string_view part : {bytes, more}) {
    for (const char c : part) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  }
  return fmt::format("{:016x}", hash);
}

}  // namespace heed::lab
