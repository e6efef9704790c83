#include "lab/report/unpacker.h"

#include <algorithm>
#include <array>
#include <utility>

#include <zlib.h>

#include "heed/error.h"
#include "heed/input_file.h"
#include "lab/report/file.h"

namespace heed::lab {
namespace {

constexpr std::string_view kMagic = "\x1f\x8b";

}  // namespace

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

}  // namespace heed::lab
