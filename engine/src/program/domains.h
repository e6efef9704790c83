// What each instruction of a program depends on, and with it how seldom it needs to be computed.
#ifndef HEED_PROGRAM_DOMAINS_H_
#define HEED_PROGRAM_DOMAINS_H_

#include <cstdint>
#include <vector>

#include "program/code.h"

namespace heed::program {

// Along what a value changes within one batch row and head.
enum class Axis : uint8_t { kNone, kQuery, kKey, kOffset, kPair };

struct Domain {
  Axis axis = Axis::kNone;
  bool batch = false, head = false;  // whether it changes from batch row to batch row, from query head to query head

  bool pair() const { return axis == Axis::kPair; }
};

// What a call says of positions.
struct PositionForm {
  bool listed = false;   // one by one, for both sides; else they count up from an origin
  bool per_row = false;  // listed for each batch row
  bool packed = false;   // origins differ from sequence to sequence
};

// The program with positions that count up written as sums of index and origin, so that their differences are offsets.
Code WithOrigins(const Code& code, const PositionForm& form);

// The domain of each instruction of such a program. Offsets (key minus query, in any linear form) are found.
std::vector<Domain> DomainsOf(const Code& code, const PositionForm& form);

// The instructions that one needs, itself last, in the order of their computation.
std::vector<int> NeededBy(const Code& code, int instruction);

}  // namespace heed::program

#endif  // HEED_PROGRAM_DOMAINS_H_
