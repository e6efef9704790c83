// Whether the options of a call fit its shape, without arrays to compute with.
#ifndef HEED_ATTENTION_CHECK_H_
#define HEED_ATTENTION_CHECK_H_

#include "heed/attention.h"

namespace heed {

// Throws the InvalidArgument that Forward would throw for these options and this shape, so that a caller who splits a call can
// refuse it before computing any part. For packed sequences give their number as batch and the longest lengths.
void CheckAttention(const Attention& attention, const Shape& shape);

}  // namespace heed

#endif  // HEED_ATTENTION_CHECK_H_
