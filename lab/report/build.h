// Which build this process runs: two builds of one version may compute other numbers.
#ifndef HEED_LAB_REPORT_BUILD_H_
#define HEED_LAB_REPORT_BUILD_H_

#include <string>
#include <vector>

namespace heed::lab {

// A file of machine code that the process has loaded: the program, heed's library, LibTorch's, the system's.
struct LoadedObject {
  std::string name;      // of the file, without its folder; empty for the program
  std::string contents;  // the linker's build id, else size and time of the file's last change; empty where it has neither
};

// In the order in which they were loaded. The kernel's own object is left out: it computes nothing.
std::vector<LoadedObject> LoadedObjects();

// 16 hexadecimal digits, which differ where one of the objects does.
std::string BuildIdentity(const std::vector<LoadedObject>& objects);

// That of this process, when it was first asked for. Files with a build id may be copied and keep theirs.
const std::string& BuildIdentity();

}  // namespace heed::lab

#endif  // HEED_LAB_REPORT_BUILD_H_
