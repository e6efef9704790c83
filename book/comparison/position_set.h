// A set of positions that many scalars share: copied by reference count, written only by its sole owner.
#ifndef HEED_BOOK_COMPARISON_POSITION_SET_H_
#define HEED_BOOK_COMPARISON_POSITION_SET_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace heed::lab {

// The empty set owns no memory, so weights and constants cost nothing.
class PositionSet {
 public:
  PositionSet() = default;
  explicit PositionSet(int64_t position) {
    words_ = std::make_shared<Words>(position / 64 + 1);
    words_->back() = uint64_t{1} << (position % 64);
  }

  bool Contains(int64_t position) const {
    const std::size_t word = position / 64;
    return words_ && word < words_->size() && ((*words_)[word] >> (position % 64) & 1) != 0;
  }

  PositionSet& operator|=(const PositionSet& other) {
    if (other.IsSubsetOf(*this)) return *this;
    if (IsSubsetOf(other)) return *this = other;
    if (words_.use_count() != 1) words_ = std::make_shared<Words>(*words_);
    if (words_->size() < other.words_->size()) words_->resize(other.words_->size());
    for (std::size_t i = 0; i < other.words_->size(); ++i) (*words_)[i] |= (*other.words_)[i];
    return *this;
  }

  // Members 64 to a word, lowest first; positions beyond the last word are not in the set.
  const std::vector<uint64_t>& words() const {
    static const Words empty;
    return words_ ? *words_ : empty;
  }

 private:
  using Words = std::vector<uint64_t>;

  bool IsSubsetOf(const PositionSet& other) const {
    if (!words_ || words_ == other.words_) return true;
    if (!other.words_ || words_->size() > other.words_->size()) return false;  // the last word is never zero
    for (std::size_t i = 0; i < words_->size(); ++i) {
      if (((*words_)[i] & ~(*other.words_)[i]) != 0) return false;
    }
    return true;
  }

  std::shared_ptr<Words> words_;
};

}  // namespace heed::lab

#endif  // HEED_BOOK_COMPARISON_POSITION_SET_H_
