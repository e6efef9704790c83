#include "lab/report/file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <system_error>

#include "heed/error.h"

namespace heed::lab {
namespace {

[[noreturn]] void Fail(const std::filesystem::path& path, const std::string& what, const std::string& reason) {
  throw FileError(path.string() + ": " + what + ": " + reason);
}

}  // namespace

void WriteFile(const std::filesystem::path& path, std::string_view contents) {
  std::error_code error;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), error);
  if (error) Fail(path, "its directory cannot be made", error.message());

  // The process id keeps two programs that write the same file apart.
  std::filesystem::path beside = path;
  beside += ".part-" + std::to_string(getpid());
  errno = 0;
  std::ofstream stream(beside, std::ios::binary | std::ios::trunc);
  if (stream) stream.write(contents.data(), static_cast<std::streamsize>(contents.size()));
  stream.close();  // a full disk shows here at the latest
  if (!stream) {
    const std::string reason = errno != 0 ? std::strerror(errno) : "write error";
    std::filesystem::remove(beside, error);
    Fail(path, "cannot be written", reason);
  }
  std::filesystem::rename(beside, path, error);
  if (error) {
    std::error_code ignored;
    std::filesystem::remove(beside, ignored);
    Fail(path, "cannot be replaced", error.message());
  }
}

std::string ReadFile(const std::filesystem::path& path) {
  errno = 0;
  std::ifstream stream(path, std::ios::binary);
  if (!stream) Fail(path, "cannot be opened", std::strerror(errno));
  std::string contents{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (stream.bad()) Fail(path, "cannot be read", "read error");
  return contents;
}

}  // namespace heed::lab
