#include "position/pair_program/table_gradients.h"

#include <algorithm>
#include <limits>

#include "simd/tuning.h"

namespace heed::position {
namespace {

// Calls visit(index of four dimensions) for all entries, the last dimension fastest.
template <class Visit>
void ForEachEntry(const std::array<int64_t, 4>& extent, const Visit& visit) {
  for (int64_t b = 0; b < extent[0]; ++b)
    for (int64_t h = 0; h < extent[1]; ++h)
      for (int64_t i = 0; i < extent[2]; ++i)
        for (int64_t j = 0; j < extent[3]; ++j) visit(b, h, i, j);
}

}  // namespace

template <class T>
void TablePairParts<T>::AddReading(const program::Code& code, const std::vector<int>& indices) {
  const auto dimension_of = [&](program::Operation leaf) {
    for (std::size_t x = 0; x < indices.size(); ++x)
      if (code[indices[x]].operation == leaf) return static_cast<int>(x);
    return -1;
  };
  const auto join = [&](int& dimension, program::Operation leaf) {
    const int found = dimension_of(leaf);
    dimension = !read_ || dimension == found ? found : -1;
  };
  join(batch_, program::Operation::kBatch);
  join(head_, program::Operation::kHead);
  join(key_, program::Operation::kKey);
  read_ = true;
}

template <class T>
int64_t TablePairParts<T>::most_blocks() const {
  if (!read_ || apart_by_block()) return std::numeric_limits<int64_t>::max();
  return std::max<int64_t>(1, simd::kTableParts / (apart_by_chunk() ? 1 : chunks_));
}

template <class T>
void TablePairParts<T>::Lay(core::Arena& arena, const Blocks& blocks) {
  if (!read_) return;
  parts_ = (apart_by_block() ? 1 : blocks.count()) * (apart_by_chunk() ? 1 : chunks_);
  if (parts_ > 1) data_ = arena.Take<T>(parts_, entries());
}

template <class T>
void TablePairParts<T>::Clear() const {
  if (parts_ > 1) std::fill_n(data_, parts_ * entries(), T{0});
  ForEachEntry(wanted_.extent, [&](auto... index) { wanted_(index...) = T{0}; });
}

template <class T>
void TablePairParts<T>::Finish() const {
  if (parts_ <= 1) return;
  const T* entry = data_;
  ForEachEntry(wanted_.extent, [&](auto... index) {
    T total = 0;
    for (int64_t part = 0; part < parts_; ++part) total += entry[part * entries()];
    wanted_(index...) = total;
    ++entry;
  });
}

template <class T>
View<T, 4> TablePairParts<T>::Part(int64_t block, int64_t chunk) const {
  if (parts_ <= 1) return wanted_;
  const int64_t part = (apart_by_block() ? 0 : block) * (apart_by_chunk() ? 1 : chunks_) + (apart_by_chunk() ? 0 : chunk);
  return View<T, 4>::Contiguous(data_ + part * entries(), wanted_.extent);
}

template <class T>
GivenParts<T>::GivenParts(const CallFacts& call, const PairForm& form, const program::Domain& domain)
    : shape_(call.shape),
      domain_(domain),
      // Keys belong to one chunk.
      chunks_(domain.axis == program::Axis::kKey ? 1 : call.cut.chunks),
      length_(form.Length(domain.axis)),
      // Idle lanes reach beyond the queries, tiles beyond the keys.
      padded_(length_ + simd::kWidestPanelBytes / static_cast<int64_t>(sizeof(float)) + simd::kTileKeys) {}

template <class T>
void GivenParts<T>::Sum(int64_t row, int64_t first, int64_t count, double* sums) const {
  const int64_t heads = domain_.head ? shape_.q_heads : 1;
  const int64_t b = domain_.batch ? row / heads : -1, h = domain_.head ? row % heads : -1;
  std::fill_n(sums, count, 0.0);
  for (int64_t x = b < 0 ? 0 : b; x < (b < 0 ? shape_.batch : b + 1); ++x)
    for (int64_t y = h < 0 ? 0 : h; y < (h < 0 ? shape_.q_heads : h + 1); ++y)
      for (int64_t chunk = 0; chunk < chunks_; ++chunk) {
        const T* part = At(x, y, chunk) + first;
        for (int64_t n = 0; n < count; ++n) sums[n] += static_cast<double>(part[n]);
      }
}

template class TablePairParts<float>;
template class TablePairParts<double>;
template class GivenParts<float>;
template class GivenParts<double>;

}  // namespace heed::position
