// Whether the options of a call fit its shape, without arrays to compute with.
#ifndef HEED_ATTENTION_CHECK_H_
#define HEED_ATTENTION_CHECK_H_

#include "heed/attention.h"

namespace heed {

// Throws the InvalidArgument that Forward would throw for these options and arrays of that shape: for whoever cuts a call into
// parts and wants to refuse the whole before computing any. For packed sequences the shape has their number and the longest
// lengths.
void CheckAttention(const Attention& attention, const Shape& shape);

}  // namespace heed

#endif  // HEED_ATTENTION_CHECK_H_
