// A key of each row that has a score and no value: what a scheme may bring for all rows (position/valueless_key.h). The softmax
// of a panel takes it in behind all other keys.
#ifndef HEED_ATTENTION_VALUELESS_KEY_H_
#define HEED_ATTENTION_VALUELESS_KEY_H_

#include <cstdint>

namespace heed::attention {

class ValuelessKey {
 public:
  virtual ~ValuelessKey() = default;
  // In nats, of a row of the arrays, a query head and a query of that row.
  virtual double Score(int64_t row, int64_t head, int64_t query) const = 0;
  // That of the score of the same place, in a call with tangents.
  virtual double Tangent(int64_t /*row*/, int64_t /*head*/, int64_t /*query*/) const { return 0; }
};

// The gradients of these scores.
class ValuelessKeyGradients {
 public:
  virtual ~ValuelessKeyGradients() = default;
  virtual int64_t rows() const = 0;
  virtual int64_t queries() const = 0;
  // Of the same place, whose score is given.
  virtual double Of(int64_t row, int64_t head, int64_t query, double score) const = 0;
};

}  // namespace heed::attention

#endif  // HEED_ATTENTION_VALUELESS_KEY_H_
