// The end of a training whose numbers are no longer finite.
#ifndef HEED_LAB_TRAINING_DIVERGENCE_H_
#define HEED_LAB_TRAINING_DIVERGENCE_H_

#include "heed/error.h"

namespace heed::lab {

// what() says which number it was and where; nothing that was measured on such a model is a result.
class Divergence : public Error {
 public:
  using Error::Error;
};

}  // namespace heed::lab

#endif  // HEED_LAB_TRAINING_DIVERGENCE_H_
