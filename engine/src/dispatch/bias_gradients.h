// Gradients of biases: where the tasks of a backward call collect their shares, and the final sums in a fixed order.
#ifndef HEED_DISPATCH_BIAS_GRADIENTS_H_
#define HEED_DISPATCH_BIAS_GRADIENTS_H_

#include <array>
#include <cstdint>

#include "attention/problem.h"
#include "core/arena.h"
#include "heed/attention.h"

namespace heed::dispatch {

// Which batch rows and key heads add to the same entries of a dense bias [.., Nq, Nk]. Rows of one block run one after the
// other; blocks are apart, in groups that share nothing or in copies that are summed at the end.
struct Blocks {
  int64_t batch_groups = 1, head_groups = 1;  // B and Hkv where the bias tells them apart, else 1
  int64_t copies = 1;                         // per group
  int64_t rows = 1;                           // batch rows times key heads per group

  int64_t count() const { return batch_groups * head_groups * copies; }
  // The rows of a block among those of its group.
  int64_t first_row(int64_t block) const { return block % copies * rows / copies; }
  int64_t last_row(int64_t block) const { return (block % copies + 1) * rows / copies; }
};

// Row x of a block's group, as a batch row and a key head.
struct BlockRow {
  int64_t b, kv_head;
};
inline BlockRow RowOfBlock(const Blocks& blocks, const Shape& shape, int64_t block, int64_t x) {
  const int64_t group = block / blocks.copies, heads = shape.kv_heads / blocks.head_groups;
  return {blocks.batch_groups > 1 ? group / blocks.head_groups : x / heads,
          blocks.head_groups > 1 ? group % blocks.head_groups : x % heads};
}

template <class T>
class BiasCollection {
 public:
  // Lays the parts out in `arena`; `wanted` says by presence which gradients to collect.
  BiasCollection(core::Arena& arena, const Attention& attention, const attention::Cut& cut, const Shape& shape,
                 const BiasGradients<T>& wanted);

  const Blocks& blocks() const { return blocks_; }
  const attention::BiasParts<T>& parts() const { return parts_; }
  // Whether any of the gradients wanted comes from that of the scores.
  bool any_of_scores() const {
    return parts_.relative_bias || parts_.slopes || parts_.content_keys || parts_.content_queries || wanted_.bias.present();
  }

  // Zeroes all parts.
  void Clear() const;
  // Sums all parts into what was wanted.
  void Finish() const;

 private:
  void LayDense(core::Arena& arena, const Attention& attention);
  void FinishRelative() const;
  void FinishContent(const T* parts, int64_t padded, const View<T, 2>& gradient) const;
  void FinishDense() const;
  // Whether the bias tells both queries and keys apart, so that its gradient is too large for a part a task.
  bool by_copy() const { return dense_extent_[2] != 1 && dense_extent_[3] != 1; }
  bool in_place() const { return parts_.bias.present() && parts_.bias.data == wanted_.bias.data; }

  attention::Cut cut_;
  Shape shape_;
  BiasGradients<T> wanted_;
  Blocks blocks_;
  attention::BiasParts<T> parts_;
  std::array<int64_t, 4> dense_extent_{};
  int64_t dense_size_ = 0, content_rows_ = 0;
};

}  // namespace heed::dispatch

#endif  // HEED_DISPATCH_BIAS_GRADIENTS_H_
