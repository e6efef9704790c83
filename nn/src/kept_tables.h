// Tables of a rotary scheme that are made once.
#ifndef HEED_NN_SRC_KEPT_TABLES_H_
#define HEED_NN_SRC_KEPT_TABLES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>

#include <ATen/core/Tensor.h>

#include "heed/nn/rotary.h"

namespace heed::nn {

// Cosines and sines of tokens in a row from position 0 on, for the longest text so far, one for each type; where the
// frequencies depend on the length of the text, those of its last length. Safe for use by many threads at once.
class KeptTables {
 public:
  using Make = std::function<RotaryTables(const at::Tensor& positions)>;

  // Of positions first .. first + steps - 1. last: the last position of the text, where the frequencies depend on it.
  RotaryTables Rows(const Make& make, int64_t first, int64_t steps, std::optional<int64_t> last, at::ScalarType type);

 private:
  struct Kept {
    std::optional<int64_t> last;
    RotaryTables tables;
  };

  std::mutex mutex_;
  std::map<at::ScalarType, Kept> kept_;
};

}  // namespace heed::nn

#endif  // HEED_NN_SRC_KEPT_TABLES_H_
