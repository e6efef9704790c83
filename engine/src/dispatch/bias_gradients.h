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
};

// Calls visit(b, kv_head) for the rows of a block in their order.
template <class Visit>
void ForEachRow(const Blocks& blocks, const Shape& shape, int64_t block, const Visit& visit) {
  const int64_t copy = block % blocks.copies, group = block / blocks.copies;
  const int64_t batch_group = group / blocks.head_groups, head_group = group % blocks.head_groups;
  const int64_t heads = shape.kv_heads / blocks.head_groups;
  for (int64_t x = copy * blocks.rows / blocks.copies; x < (copy + 1) * blocks.rows / blocks.copies; ++x) {
    const int64_t b = blocks.batch_groups > 1 ? batch_group : x / heads;
    visit(b, blocks.head_groups > 1 ? head_group : x % heads);
  }
}

template <class T>
class BiasCollection {
 public:
  // Lays the parts out in `arena`; `wanted` says by presence which gradients to collect.
  BiasCollection(core::Arena& arena, const Attention& attention, const attention::Cut& cut, const Shape& shape,
                 const BiasGradients<T>& wanted);

  const Blocks& blocks() const { return blocks_; }
  const attention::BiasParts<T>& parts() const { return parts_; }

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
