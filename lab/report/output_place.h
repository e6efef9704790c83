// Checks that results can be written, before the work that yields them.
#ifndef HEED_LAB_REPORT_OUTPUT_PLACE_H_
#define HEED_LAB_REPORT_OUTPUT_PLACE_H_

#include <filesystem>

namespace heed::lab {

// Tries: makes the folder and a file in it, and removes what was made. Throws FileError that names the folder and the reason.
void RequireWritableFolder(const std::filesystem::path& folder);

// The same for the folder of a file; `file` itself must be a regular file, or not be there.
void RequireWritableFile(const std::filesystem::path& file);

}  // namespace heed::lab

#endif  // HEED_LAB_REPORT_OUTPUT_PLACE_H_
