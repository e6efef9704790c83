// Positional encodings added to the input, on plain memory, for inference.
#ifndef HEED_POSITIONAL_ENCODING_H_
#define HEED_POSITIONAL_ENCODING_H_

#include <cstdint>
#include <vector>

#include "heed/length_policy.h"
#include "heed/positions.h"
#include "heed/view.h"
#include "heed/weights.h"

namespace heed {

// d2l's encoding: out = X + P[offset : offset + steps]. Vaswani et al. 2017, section 3.5. No parameters.
class PositionalEncoding {
 public:
  explicit PositionalEncoding(int64_t num_hiddens, int64_t max_len = 1000, LengthPolicy length_policy = LengthPolicy::kError,
                              SinusoidalOptions table = {});
  // X, out [batch, steps, num_hiddens], any strides; out is X itself or does not overlap it. offset: position of the first
  // step. Throws InvalidArgument, naming the argument, before it writes out.
  void Forward(View<const float, 3> X, View<float, 3> out, int64_t offset = 0) const;
  View<const float, 2> P() const;  // [max_len, num_hiddens]

 private:
  int64_t num_hiddens_, max_len_;
  LengthPolicy length_policy_;
  SinusoidalOptions options_;
  std::vector<float> table_;
};

// One trained row per position: out = X + weight[offset : offset + steps]; parameter weight [max_len, num_hiddens].
class LearnedPositions {
 public:
  explicit LearnedPositions(int64_t num_hiddens, int64_t max_len = 1000, LengthPolicy length_policy = LengthPolicy::kError);
  Parameters parameters();
  // As PositionalEncoding.
  void Forward(View<const float, 3> X, View<float, 3> out, int64_t offset = 0) const;

 private:
  int64_t num_hiddens_, max_len_;
  LengthPolicy length_policy_;
  std::vector<float> weight_;
};

}  // namespace heed

#endif  // HEED_POSITIONAL_ENCODING_H_
