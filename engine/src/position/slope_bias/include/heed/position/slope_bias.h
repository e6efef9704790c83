// A bias linear in the distance.
#ifndef HEED_POSITION_SLOPE_BIAS_H_
#define HEED_POSITION_SLOPE_BIAS_H_

#include "heed/table.h"

namespace heed {

// ALiBi: -slope_h * |delta|, or slope_h * delta where not symmetric, with delta = key position - query position. Positions may
// be real numbers. Press et al. 2022, "Train Short, Test Long", section 3.
struct SlopeBias {
  KeptTable slopes;  // [Hq]; SlopeBias{AlibiSlopes(heads)} keeps the vector
  bool symmetric = true;
};

}  // namespace heed

#endif  // HEED_POSITION_SLOPE_BIAS_H_
