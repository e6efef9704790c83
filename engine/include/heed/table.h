// A table of parameters, such as one trainable number per head and offset.
#ifndef HEED_TABLE_H_
#define HEED_TABLE_H_

#include <variant>

#include "heed/view.h"

namespace heed {

// In the accumulation type of the call: float, or double for calls in double.
template <int Rank>
using Table = std::variant<View<const float, Rank>, View<const double, Rank>>;

}  // namespace heed

#endif  // HEED_TABLE_H_
