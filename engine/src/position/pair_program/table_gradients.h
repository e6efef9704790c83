// Where the gradients of captured tables gather: from pairs, and from values that do not depend on the pair.
#ifndef HEED_POSITION_PAIR_PROGRAM_TABLE_GRADIENTS_H_
#define HEED_POSITION_PAIR_PROGRAM_TABLE_GRADIENTS_H_

#include <cstdint>
#include <vector>

#include "core/arena.h"
#include "position/pair_program/form.h"
#include "position/pair_program/score_code.h"
#include "position/scheme.h"

namespace heed::position {

// The gradient of one table from pairs. Tasks that run at the same time add to parts of their own, or straight to the caller's
// array where an index keeps them apart: the batch row and the head, the key.
template <class T>
class TablePairParts {
 public:
  TablePairParts(const CallFacts& call, const View<T, 4>& wanted) : wanted_(wanted), chunks_(call.cut.chunks) {}

  // How a reading of it is indexed, dimension by dimension.
  void AddReading(const program::Code& code, const std::vector<int>& indices);

  bool read() const { return read_; }
  bool apart_by_block() const { return batch_ >= 0 && head_ >= 0; }
  int64_t most_blocks() const;
  void Lay(core::Arena& arena, const Blocks& blocks);
  void Clear() const;
  void Finish() const;
  // Where a block and a chunk add.
  View<T, 4> Part(int64_t block, int64_t chunk) const;

 private:
  bool apart_by_chunk() const { return key_ >= 0; }
  int64_t entries() const { return wanted_.size(); }

  View<T, 4> wanted_;
  int64_t chunks_;
  bool read_ = false;
  // The dimension that is indexed by nothing but the batch row (the head, the key) wherever it is read; -1: none.
  int batch_ = -1, head_ = -1, key_ = -1;
  int64_t parts_ = 0;
  T* data_ = nullptr;  // [blocks or 1, chunks or 1, entries]
};

// The gradients of the values that do not depend on the pair: a row for each query head, and each chunk where chunks share
// them.
template <class T>
class GivenParts {
 public:
  GivenParts(const CallFacts& call, const PairForm& form, const program::Domain& domain);

  void Lay(core::Arena& arena) { data_ = arena.Take<T>(shape_.batch, shape_.q_heads, chunks_, padded_); }
  T* At(int64_t b, int64_t h, int64_t chunk) const {
    return data_ + ((b * shape_.q_heads + h) * chunks_ + (chunks_ == 1 ? 0 : chunk)) * padded_;
  }
  void Clear(int64_t b, int64_t h) const { std::fill_n(At(b, h, 0), chunks_ * padded_, T{0}); }
  int64_t padded() const { return padded_; }
  // sums[n] = the gradient of values first .. first + count - 1 of a row of the domain.
  void Sum(int64_t row, int64_t first, int64_t count, double* sums) const;

 private:
  Shape shape_;
  program::Domain domain_;
  int64_t chunks_, length_, padded_;
  T* data_ = nullptr;
};

}  // namespace heed::position

#endif  // HEED_POSITION_PAIR_PROGRAM_TABLE_GRADIENTS_H_
