// Refusals whose words are put together.
#ifndef HEED_NN_SRC_REFUSE_H_
#define HEED_NN_SRC_REFUSE_H_

#include <sstream>
#include <string_view>

#include "heed/error.h"

namespace heed::nn {

template <class... Parts>
[[noreturn]] void Refuse(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  throw InvalidArgument(text.str());
}

// Whether an option's name is the second of two that it may be.
inline bool IsSecond(const char* option, std::string_view name, std::string_view first, std::string_view second) {
  if (name != first && name != second) Refuse(option, ": expected '", first, "' or '", second, "', got '", name, "'");
  return name == second;
}

}  // namespace heed::nn

#endif  // HEED_NN_SRC_REFUSE_H_
