// Parts of a text that do not follow one another.
#ifndef HEED_LAB_DATA_PASSAGES_H_
#define HEED_LAB_DATA_PASSAGES_H_

#include <cstdint>
#include <utility>
#include <vector>

namespace heed::lab {

// Tokens that follow one another in the text are a passage; a window lies within one.
struct Passages {
  std::vector<int32_t> tokens;  // one passage after another
  std::vector<int64_t> ends;    // of each passage among the tokens, rising

  Passages() = default;
  explicit Passages(std::vector<int32_t> passage) : tokens(std::move(passage)), ends{static_cast<int64_t>(tokens.size())} {}

  int64_t size() const { return static_cast<int64_t>(tokens.size()); }
};

}  // namespace heed::lab

#endif  // HEED_LAB_DATA_PASSAGES_H_
