// Which heads of a model are looked at.
#ifndef HEED_LAB_INSPECTION_HEAD_SELECTION_H_
#define HEED_LAB_INSPECTION_HEAD_SELECTION_H_

#include <cstdint>
#include <vector>

namespace heed::lab {

struct Reading;

// Counted from 0.
struct HeadSelection {
  std::vector<int64_t> layers, heads;
};

// `wanted` sorted and without repetition; where it names no layers, or no heads, all of the model. Throws InvalidArgument that
// names layers or heads where the model has no such one, and the encoder where it is not attention.
HeadSelection SelectHeads(const Reading& reading, HeadSelection wanted);

}  // namespace heed::lab

#endif  // HEED_LAB_INSPECTION_HEAD_SELECTION_H_
