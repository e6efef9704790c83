// Files that are either whole or not there.
#ifndef HEED_LAB_REPORT_FILE_H_
#define HEED_LAB_REPORT_FILE_H_

#include <filesystem>
#include <string>
#include <string_view>

namespace heed::lab {

// Writes `contents` to a file beside `path` and renames it to `path`, so a reader sees the old file or the new one, never a
// part. Missing directories are made. Throws FileError naming the path and the reason; no partial file is left behind.
void WriteFile(const std::filesystem::path& path, std::string_view contents);

// The whole file as bytes. Throws FileError naming the path and the reason.
std::string ReadFile(const std::filesystem::path& path);

}  // namespace heed::lab

#endif  // HEED_LAB_REPORT_FILE_H_
