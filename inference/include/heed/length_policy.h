// The policy for positions beyond a table.
#ifndef HEED_LENGTH_POLICY_H_
#define HEED_LENGTH_POLICY_H_

namespace heed {

enum class LengthPolicy {
  kError,   // throw InvalidArgument, naming the length and the limit
  kExtend,  // compute more rows (sinusoidal only)
  kClamp,   // repeat the last row
};

}  // namespace heed

#endif  // HEED_LENGTH_POLICY_H_
