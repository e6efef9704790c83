#include "lab/report/file.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <zlib.h>

#include "heed/error.h"
#include "heed/input_file.h"
#include "heed/nn/input_file.h"
#include "heed/nn/replacement_file.h"
#include "heed/utf8.h"
#include "lab/report/printable.h"

namespace heed::lab {
namespace {

constexpr std::string_view kMagic = "\x1f\x8b";

}  // namespace

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

struct Unpacker::Stream {
  z_stream z = {};
  bool begun = false;  // within a member; a file may have several
};

Unpacker::Unpacker(std::string name) : name_(std::move(name)) {}
Unpacker::~Unpacker() {
  if (stream_) inflateEnd(&stream_->z);
}

void Unpacker::Append(std::string_view bytes, bool last, std::string& to) {
  if (!decided_) {
    begin_ += bytes;
    if (begin_.size() < kMagic.size() && !last) return;
    decided_ = true;
    if (IsCompressed(std::string_view(begin_))) {
      stream_ = std::make_unique<Stream>();
      constexpr int kGzip = 16 + MAX_WBITS;
      if (inflateInit2(&stream_->z, kGzip) != Z_OK) throw FileError(name_ + ": zlib has no memory to unpack it");
    }
    const std::string begin = std::exchange(begin_, {});
    stream_ ? Inflate(begin, to) : void(to += begin);
  } else {
    stream_ ? Inflate(bytes, to) : void(to += bytes);
  }
  if (last && stream_ && stream_->begun) throw FileError(name_ + ": the compressed file is cut off; copy it again");
}

void Unpacker::Inflate(std::string_view bytes, std::string& to) {
  std::array<char, size_t{1} << 16> block;
  z_stream& z = stream_->z;
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  z.avail_in = static_cast<uInt>(bytes.size());
  bool full = false;  // more may come without further bytes
  while (z.avail_in > 0 || full) {
    if (!stream_->begun) inflateReset(&z);
    stream_->begun = true;
    z.next_out = reinterpret_cast<Bytef*>(block.data());
    z.avail_out = static_cast<uInt>(block.size());
    const int result = inflate(&z, Z_NO_FLUSH);
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
      throw FileError(name_ + ": the compressed file is damaged; unpack it by gunzip, or copy it again");
    to.append(block.data(), block.size() - z.avail_out);
    full = z.avail_out == 0 && result == Z_OK;
    if (result == Z_STREAM_END) stream_->begun = false;
    if (result == Z_BUF_ERROR) break;
    if (std::ssize(to) > MostDataBytes())
      throw FileError(name_ + ": it unpacks to more than " + std::to_string(MostDataBytes()) + " bytes; cut it into parts");
  }
}

bool IsCompressed(std::string_view bytes) { return bytes.starts_with(kMagic); }

bool IsCompressed(const std::filesystem::path& path) {
  const InputFile file(path.string());
  std::array<char, kMagic.size()> begin = {};
  if (file.size() < std::ssize(begin)) return false;
  file.Read(0, std::ssize(begin), begin.data());
  return IsCompressed(std::string_view(begin.data(), begin.size()));
}

void RequireWritableFolder(const std::filesystem::path& folder) {
  std::error_code error;
  std::vector<std::filesystem::path> made;  // for this trial, the innermost first
  for (std::filesystem::path part = folder; !part.empty() && !std::filesystem::exists(part, error); part = part.parent_path()) {
    made.push_back(part);
  }
  std::string refusal;
  if (std::filesystem::create_directories(folder, error); error) {
    refusal = "the folder cannot be made: " + error.message();
  } else {
    std::string name = (folder / ".trial-XXXXXX").string();
    const int file = mkstemp(name.data());
    if (file < 0) {
      refusal = std::string("nothing can be written into the folder: ") + std::strerror(errno);
    } else {
      close(file);
      unlink(name.c_str());
    }
  }
  for (const std::filesystem::path& part : made) rmdir(part.c_str());  // leaves what somebody has put something into
  if (!refusal.empty()) throw FileError(folder.string() + ": " + refusal);
}

void RequireWritableFile(const std::filesystem::path& file) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(file, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    throw FileError(file.string() + ": it is no regular file; heed replaces only regular files");
  }
  RequireWritableFolder(file.has_parent_path() ? file.parent_path() : ".");
}

}  // namespace heed::lab
