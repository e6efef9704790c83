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
namespace {

// Folders that were made for a trial, gone with the object. One that somebody has put something into stays.
class Trial {
 public:
  explicit Trial(const std::filesystem::path& folder) : folder_(folder) {
    std::error_code error;
    for (std::filesystem::path part = folder; !part.empty() && !std::filesystem::exists(part, error);
         part = part.parent_path()) {
      missing_.push_back(part);
    }
    std::filesystem::create_directories(folder, error);
    if (error) Fail("the folder cannot be made", error.message());
  }
  ~Trial() { RemoveFolders(); }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  void WriteFile() {
    std::string name = (folder_ / ".trial-XXXXXX").string();
    const int file = mkstemp(name.data());
    if (file < 0) Fail("nothing can be written into the folder", std::strerror(errno));
    close(file);
    unlink(name.c_str());
  }

 private:
  [[noreturn]] void Fail(const std::string& what, const std::string& reason) {
    RemoveFolders();
    throw FileError(folder_.string() + ": " + what + ": " + reason);
  }

  // From the innermost on; rmdir leaves folders that are not empty.
  void RemoveFolders() const {
    for (const std::filesystem::path& made : missing_) rmdir(made.c_str());
  }

  std::filesystem::path folder_;
  std::vector<std::filesystem::path> missing_;
};

}  // namespace

void RequireWritableFolder(const std::filesystem::path& folder) { Trial(folder).WriteFile(); }

void RequireWritableFile(const std::filesystem::path& file) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(file, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    throw FileError(file.string() + ": it is no regular file; heed replaces only regular files");
  }
  RequireWritableFolder(file.has_parent_path() ? file.parent_path() : ".");
}

}  // namespace heed::lab
