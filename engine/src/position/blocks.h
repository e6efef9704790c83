// Which pairs of a batch row and a key head the backward pass takes one after the other, because they add to the same gradient.
#ifndef HEED_POSITION_BLOCKS_H_
#define HEED_POSITION_BLOCKS_H_

#include <algorithm>
#include <cstdint>

#include "attention/plan.h"

namespace heed::position {

// Pairs are told apart by groups: those of one group share every entry of some gradient, those of different groups share none.
// A block is a piece of a group, each with a copy of the gradient, or several whole groups. Pairs of a block run one after the
// other, blocks at the same time. Everything follows from the shape, so the order of all sums does too.
class Blocks {
 public:
  // Pairs that share nothing.
  explicit Blocks(const Shape& shape) : batch_(shape.batch), heads_(shape.kv_heads), group_batch_(1), group_heads_(1) {}

  // Batch rows, key heads or both share; their groups are cut in pieces, up to `copies`, while fewer than `enough` blocks are
  // there.
  void Share(bool batch, bool heads, int64_t enough, int64_t copies) {
    if (batch) group_batch_ = batch_;
    if (heads) group_heads_ = heads_;
    if (groups() < enough) copies_ = std::clamp<int64_t>(group_batch_ * group_heads_, 1, copies);
  }
  // No more than `most` blocks, at least 1: fewer pieces of groups, then several groups a block.
  void Limit(int64_t most) {
    copies_ = std::clamp<int64_t>(most / std::max<int64_t>(1, groups()), 1, copies_);
    merged_ = std::max<int64_t>(1, attention::DivideUp(groups(), most));
  }

  int64_t count() const { return attention::DivideUp(groups(), merged_) * copies_; }
  // Pieces that each group is cut in; block x is piece x % copies() of its group.
  int64_t copies() const { return copies_; }

  // Calls visit(batch row, key head) for the pairs of a block, in their order.
  template <class Visit>
  void ForEachPair(int64_t block, const Visit& visit) const {
    const int64_t first = block / copies_ * merged_, last = std::min(first + merged_, groups());
    const int64_t pairs = group_batch_ * group_heads_, copy = block % copies_;
    for (int64_t group = first; group < last; ++group) {
      const int64_t across = std::max<int64_t>(1, heads_ / std::max<int64_t>(1, group_heads_));
      const int64_t b = group / across * group_batch_, head = group % across * group_heads_;
      for (int64_t x = copy * pairs / copies_; x < (copy + 1) * pairs / copies_; ++x)
        visit(b + x / group_heads_, head + x % group_heads_);
    }
  }

 private:
  int64_t groups() const { return batch_ == 0 || heads_ == 0 ? 0 : batch_ / group_batch_ * (heads_ / group_heads_); }

  int64_t batch_, heads_;
  int64_t group_batch_, group_heads_;  // batch rows and key heads of a group
  int64_t copies_ = 1, merged_ = 1;    // pieces of a group, groups of a block; one of them is 1
};

}  // namespace heed::position

#endif  // HEED_POSITION_BLOCKS_H_
