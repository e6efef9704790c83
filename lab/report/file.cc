#include "lab/report/file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "heed/error.h"

namespace heed::lab {
namespace {

[[noreturn]] void Fail(const std::filesystem::path& path, const std::string& what, const std::string& reason) {
  throw FileError(path.string() + ": " + what + ": " + reason);
}

// The reason is errno, which must have been 0 before.
void CheckWritten(const std::ofstream& stream, const std::filesystem::path& path) {
  if (!stream) Fail(path, "cannot be written", errno != 0 ? std::strerror(errno) : "write error");
}

}  // namespace

NewFile::NewFile(std::filesystem::path path) : path_(std::move(path)), beside_(path_) {
  std::error_code error;
  if (path_.has_parent_path()) std::filesystem::create_directories(path_.parent_path(), error);
  if (error) Fail(path_, "its directory cannot be made", error.message());
  // The process id keeps two programs that write the same file apart.
  beside_ += ".part-" + std::to_string(getpid());
  errno = 0;
  stream_.open(beside_, std::ios::binary | std::ios::trunc);
  CheckWritten(stream_, path_);
}

NewFile::~NewFile() {
  std::error_code ignored;
  if (!finished_) std::filesystem::remove(beside_, ignored);
}

void NewFile::Write(std::string_view bytes) {
  errno = 0;
  stream_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  CheckWritten(stream_, path_);
}

void NewFile::Finish() {
  errno = 0;
  stream_.close();  // a full disk shows here at the latest
  CheckWritten(stream_, path_);
  std::error_code error;
  std::filesystem::rename(beside_, path_, error);
  if (error) Fail(path_, "cannot be replaced", error.message());
  finished_ = true;
}

void WriteFile(const std::filesystem::path& path, std::string_view contents) {
  NewFile file(path);
  file.Write(contents);
  file.Finish();
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
