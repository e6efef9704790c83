#include "lab/report/environment.h"

#include <elf.h>
#include <link.h>
#include <sys/auxv.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

#include <torch/version.h>

#include "heed/attention.h"
#include "heed/executor.h"
#include "lab/report/file.h"

namespace heed::lab {
namespace {

std::string ProcessorName() {
  std::ifstream lines("/proc/cpuinfo");
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(':');
    if (line.starts_with("model name") && colon != std::string::npos && colon + 2 <= line.size()) return line.substr(colon + 2);
  }
  return "unknown";
}

// The build id among the notes of one segment, a hash of the file that the linker made: it stands behind the kind and the owner
// of a note, and is as long as the number before them says.
std::string_view BuildId(std::string_view notes) {
  constexpr uint32_t kKind = NT_GNU_BUILD_ID;
  const std::string head = std::string(reinterpret_cast<const char*>(&kKind), sizeof kKind) + std::string("GNU\0", 4);
  const std::size_t at = notes.find(head);
  uint32_t size = 0;
  if (at == std::string_view::npos || at < sizeof size) return {};
  std::memcpy(&size, notes.data() + at - sizeof size, sizeof size);
  return notes.substr(at + head.size(), size);
}

// Tools that change finished files may leave notes behind that are no longer loaded.
bool IsLoaded(const dl_phdr_info& object, const ElfW(Phdr) & segment) {
  return std::any_of(object.dlpi_phdr, object.dlpi_phdr + object.dlpi_phnum, [&](const ElfW(Phdr) & loaded) {
    return loaded.p_type == PT_LOAD && segment.p_vaddr >= loaded.p_vaddr &&
           segment.p_vaddr + segment.p_memsz <= loaded.p_vaddr + loaded.p_memsz;
  });
}

std::string_view BuildId(const dl_phdr_info& object) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object.dlpi_phdr[i];
    if (segment.p_type != PT_NOTE || !IsLoaded(object, segment)) continue;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the loader tells addresses as numbers
    const char* notes = reinterpret_cast<const char*>(object.dlpi_addr + segment.p_vaddr);
    const std::string_view id = BuildId({notes, segment.p_memsz});
    if (!id.empty()) return id;
  }
  return {};
}

std::string SizeAndTime(const std::filesystem::path& file) {
  std::error_code no_size, no_time;
  const auto size = std::filesystem::file_size(file, no_size);
  const auto time = std::filesystem::last_write_time(file, no_time);
  return no_size || no_time ? "" : std::to_string(size) + " " + std::to_string(time.time_since_epoch().count());
}

int Add(dl_phdr_info* object, std::size_t, void* objects) {
  if (object->dlpi_addr != 0 && object->dlpi_addr == getauxval(AT_SYSINFO_EHDR)) return 0;
  const std::filesystem::path file = object->dlpi_name;
  const std::string_view id = BuildId(*object);
  static_cast<std::vector<LoadedObject>*>(objects)->push_back(
      {file.filename().string(), id.empty() ? SizeAndTime(file.empty() ? "/proc/self/exe" : file) : std::string(id)});
  return 0;
}

}  // namespace

Environment ThisEnvironment() {
  static const std::string build = BuildIdentity(LoadedObjects());
  return {HEED_VERSION, TORCH_VERSION, __VERSION__, ProcessorName(), SupportedTargets(), AvailableThreads(), build};
}

std::string MachineName() {
  const int threads = AvailableThreads();
  return ProcessorName() + ", " + std::to_string(threads) + (threads == 1 ? " thread" : " threads");
}

nlohmann::ordered_json ToJson(const Environment& environment) {
  return {{"version", environment.version},
          {"libtorch", environment.libtorch},
          {"compiler", environment.compiler},
          {"cpu", environment.cpu},
          {"simd_targets", environment.simd_targets},
          {"threads_available", environment.threads_available},
          {"build", environment.build}};
}

nlohmann::ordered_json ResultSettings(const Environment& environment) {
  // The kernels of another target round otherwise, on the same processor too where a build or a host leaves some out.
  const std::string target = environment.simd_targets.empty() ? "" : environment.simd_targets.front();
  return {{"version", environment.version},
          {"libtorch", environment.libtorch},
          {"cpu", environment.cpu},
          {"simd_target", target},
          {"build", environment.build}};
}

std::vector<LoadedObject> LoadedObjects() {
  std::vector<LoadedObject> objects;
  dl_iterate_phdr(&Add, &objects);
  return objects;
}

std::string BuildIdentity(const std::vector<LoadedObject>& objects) {
  std::string text;
  for (const LoadedObject& object : objects) {
    for (const std::string& part : {object.name, object.contents}) text += std::to_string(part.size()) + " " + part;
  }
  return Fingerprint(text);
}

}  // namespace heed::lab
