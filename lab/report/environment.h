// The machine and the build that computed results.
#ifndef HEED_LAB_REPORT_ENVIRONMENT_H_
#define HEED_LAB_REPORT_ENVIRONMENT_H_

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace heed::lab {

struct Environment {
  std::string version, libtorch, compiler;
  std::string cpu;                        // the processor's own name as Linux tells it; "unknown" elsewhere
  std::vector<std::string> simd_targets;  // that the engine can use here, the best first
  int threads_available = 0;
  std::string build = {};  // BuildIdentity when it was first asked for; a copy of a file with a build id has the same
};

Environment ThisEnvironment();
// Its processor and how many threads of it this process may use: "AMD EPYC 9B14, 2 threads".
std::string MachineName();
nlohmann::ordered_json ToJson(const Environment& environment);

// What a kept result depends on: version, libtorch, cpu, the best of the simd_targets, and build, without which another build
// of the same version would find what it would not compute.
nlohmann::ordered_json ResultSettings(const Environment& environment);

// A file of machine code that the process has loaded: the program, heed's library, LibTorch's, the system's.
struct LoadedObject {
  std::string name;      // of the file, without its folder; empty for the program
  std::string contents;  // the linker's build id, else size and time of the file's last change; empty where it has neither
};

// In the order in which they were loaded. The kernel's own object is left out: it computes nothing.
std::vector<LoadedObject> LoadedObjects();

// 16 hexadecimal digits, which differ where one of the objects does.
std::string BuildIdentity(const std::vector<LoadedObject>& objects);

}  // namespace heed::lab

#endif  // HEED_LAB_REPORT_ENVIRONMENT_H_
