#include "lab/report/fingerprint.h"

#include <cstdint>

#include <fmt/core.h>

namespace heed::lab {

std::string Fingerprint(std::string_view bytes, std::string_view more) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const std::string_view part : {bytes, more}) {
    for (const char c : part) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  }
  return fmt::format("{:016x}", hash);
}

}  // namespace heed::lab
