#include "lab/report/output_place.h"

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <vector>

#include "heed/error.h"

namespace heed::lab {

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
