#include "book/comparison/reachability.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>

namespace heed::lab {

BitMatrix::BitMatrix(int64_t size) : size_(size), words_((size + 63) / 64), bits_(size * words_) {}

BitMatrix::BitMatrix(const std::vector<PositionSet>& rows) : BitMatrix(static_cast<int64_t>(rows.size())) {
  for (int64_t row = 0; row < size_; ++row) std::ranges::copy(rows[row].words(), Row(row));
}

BitMatrix BitMatrix::Identity(int64_t size) {
  BitMatrix identity(size);
  for (int64_t i = 0; i < size; ++i) identity.Set(i, i);
  return identity;
}

BitMatrix operator*(const BitMatrix& a, const BitMatrix& b) {
  BitMatrix product(a.size_);
  for (int64_t row = 0; row < a.size_; ++row) {
    uint64_t* out = product.Row(row);
    for (int64_t word = 0; word < a.words_; ++word) {
      for (uint64_t members = a.Row(row)[word]; members != 0; members &= members - 1) {
        const uint64_t* other = b.Row(word * 64 + std::countr_zero(members));
        for (int64_t i = 0; i < b.words_; ++i) out[i] |= other[i];
      }
    }
  }
  return product;
}

Reachability::Reachability(BitMatrix pattern) : size_(pattern.size()), uniform_(true) {
  for (int64_t i = 0; i < size_; ++i) pattern.Set(i, i);
  reached_.push_back(std::move(pattern));
  for (;;) {
    BitMatrix square = reached_.back() * reached_.back();
    if (square == reached_.back()) break;
    reached_.push_back(std::move(square));
  }
}

Reachability::Reachability(std::vector<BitMatrix> layers) : size_(layers.front().size()), uniform_(false) {
  for (BitMatrix& layer : layers) {
    for (int64_t i = 0; i < size_; ++i) layer.Set(i, i);
    reached_.push_back(reached_.empty() ? std::move(layer) : layer * reached_.back());
  }
}

int64_t Reachability::SmallestDepth(const std::function<bool(const BitMatrix&)>& reached) const {
  if (reached(BitMatrix::Identity(size_))) return 0;
  if (!reached(reached_.back())) return kNever;
  if (uniform_) return SmallestPower(reached);
  return 1 + std::distance(reached_.begin(), std::ranges::find_if(reached_, reached));
}

// Binary digits of the largest power that has not reached it yet, highest first.
int64_t Reachability::SmallestPower(const std::function<bool(const BitMatrix&)>& reached) const {
  BitMatrix power = BitMatrix::Identity(size_);
  int64_t exponent = 0;
  for (std::size_t i = reached_.size(); i-- > 0;) {
    BitMatrix longer = power * reached_[i];
    if (reached(longer)) continue;
    power = std::move(longer);
    exponent += int64_t{1} << i;
  }
  return exponent + 1;
}

int64_t Reachability::Hops(int64_t from, int64_t to) const {
  return SmallestDepth([&](const BitMatrix& power) { return power.Get(to, from); });
}

int64_t Reachability::LongestPath(bool causal) const {
  return SmallestDepth([&](const BitMatrix& power) {
    for (int64_t to = 0; to < size_; ++to) {
      for (int64_t from = 0; from < (causal ? to : size_); ++from) {
        if (!power.Get(to, from)) return false;
      }
    }
    return true;
  });
}

int64_t Reachability::UntilSeenTogether(int64_t a, int64_t b) const {
  return SmallestDepth([&](const BitMatrix& power) {
    for (int64_t i = 0; i < size_; ++i) {
      if (power.Get(i, a) && power.Get(i, b)) return true;
    }
    return false;
  });
}

}  // namespace heed::lab
