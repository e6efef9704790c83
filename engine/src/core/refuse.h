// How the engine says no.
#ifndef HEED_CORE_REFUSE_H_
#define HEED_CORE_REFUSE_H_

#include <string>

#include "heed/error.h"

namespace heed::core {

[[noreturn]] inline void Refuse(const std::string& argument, const std::string& why) {
  throw InvalidArgument(argument + ": " + why);
}

}  // namespace heed::core

#endif  // HEED_CORE_REFUSE_H_
