// Refusals whose words are put together.
#ifndef HEED_NN_SRC_REFUSE_H_
#define HEED_NN_SRC_REFUSE_H_

#include <sstream>

#include "heed/error.h"

namespace heed::nn {

template <class... Parts>
[[noreturn]] void Refuse(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  throw InvalidArgument(text.str());
}

}  // namespace heed::nn

#endif  // HEED_NN_SRC_REFUSE_H_
