#include "tests/golden_folder.h"

#include <cstdlib>

namespace heed {

std::string GoldenFolder() {
  const char* shared = std::getenv("HEED_SHARED");
  return (shared != nullptr ? std::string(shared) : std::string(HEED_SOURCE_DIR "/../shared")) + "/golden/";
}

}  // namespace heed
