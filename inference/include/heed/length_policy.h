// What to do with positions that a table does not reach.
#ifndef HEED_LENGTH_POLICY_H_
#define HEED_LENGTH_POLICY_H_

namespace heed {

enum class LengthPolicy {
  kError,   // refuse, naming the length and the limit
  kExtend,  // compute further rows (sinusoidal only)
  kClamp,   // repeat the last row
};

}  // namespace heed

#endif  // HEED_LENGTH_POLICY_H_
