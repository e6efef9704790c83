// What a scheme's SIMD part knows of the worker that it belongs to.
#ifndef HEED_POSITION_HOOK_PLACE_H_
#define HEED_POSITION_HOOK_PLACE_H_

#include <cstdint>

#include "attention/plan.h"
#include "simd/ahead.h"

namespace heed::position {

struct HookPlace {
  const attention::Plan& plan;
  const attention::Cut& cut;
  simd::Ahead& ahead;  // memory that the worker will need soon
  int64_t output_row;  // where its rows behind the values begin, see SchemeCall::output_rows
};

}  // namespace heed::position

#endif  // HEED_POSITION_HOOK_PLACE_H_
